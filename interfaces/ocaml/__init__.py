"""OCaml out of definitions: a library for each file that others share, one for each version of an interface.

`names`       how definitions are called in OCaml
`text`        literals, comments, and lines that are not too long
`types`       types and errors, those that need each other together
`samples`     an example of each type
`blocks`      a block of functions: its signature, dispatcher, skeleton, test and clients
`libraries`   the libraries of a catalogue
"""
