"""Python out of definitions: a module for each file that others share, one for each version of an interface.

`names`       how definitions are called in Python
`text`        literals, documentation, and lines that are not too long
`types`       types and errors, in an order in which Python can read them
`blocks`      a block of functions: its client, server, skeleton and test
`modules`     the modules of a catalogue
"""
