"""Documents as pages of HTML: a folder that a browser opens as it is, without a server.

`markup`              elements, and types with links to their definitions
`programs_in_python`  a client and a server for each function, to be copied
`programs_in_ocaml`   the same in the other language
`pages`               the pages of a catalogue
`style.css`           light and dark, on screen and on paper
`search.js`           the search, and the buttons that copy
"""
