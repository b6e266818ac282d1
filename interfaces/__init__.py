"""The interface definition language: what callers and services agree on, in a text of its own.

It needs nothing of the node. In the order of the way from a text to an answer:

`errors`       mistakes, each with its place
`grammar.lark` the grammar
`tokens`       a text as words and comments; the limits of a file
`model`        what a file says, as values
`parse`        words to the model
`load`         the files of a folder, with what they import
`scope`        which definition a name means
`check`        all that is wrong with the files of a folder
`finite`       which types have a value at all
`layout`       the one way in which a file is written
`python`       the modules of Python that are written from them
`ocaml`        the libraries of OCaml that are written from them
`site`         the pages of a browser that are written from them
`compare`      what changed between two states, and whom it would break
"""
