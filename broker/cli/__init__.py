"""The command line.

Law: `app` only names commands and options. What a command needs is imported when it runs, so that
`sapwood --help` never waits for what it does not use. A command prints text for people, or JSON with
`--json`; what went wrong goes to standard error. Exit codes: 0 well, 1 failed, 2 wrong usage or
configuration.

| module | |
|---|---|
| `account_commands` | `sapwood account hash` |
| `acl` | `sapwood config acl` |
| `administer` | the names, options and help of the commands that look at a node and administrate it |
| `app` | the names, options and help of all commands |
| `channel_door` | channels of a command, through the node that it asks |
| `channel_line` | the WebSocket of such a channel, whose frames are read to where they are passed on from |
| `check` | `sapwood node check`: everything that would keep a node from running here, found before it runs |
| `check_credentials` | certificates, keys and secrets of a site, as `sapwood node check` looks at them |
| `check_issuer` | the issuer of operators' tokens, as `sapwood node check` looks at it |
| `check_neighbours` | what `sapwood node check` says of the nodes that this one dials: its parent |
| `completion` | `sapwood completion`: what a shell evaluates, and answers to what it asks then |
| `configuration` | `sapwood config fleet` and `config schema`: a whole chain's files from one table |
| `context_commands` | `sapwood context` |
| `contexts` | the names that a user has given to nodes, and where they are kept |
| `copy` | `sapwood copy`: a file to a folder of another node, or from one |
| `demo` | the demo: a small chain of real node processes, with real damage, counted at the receivers |
| `enrol` | `sapwood invite` and `sapwood join`: what is asked, and what people are told |
| `enrol_commands` | the names, options and help of the commands by which children are invited and join |
| `errors` | what a command says when it cannot do its work, and the exit code that goes with it |
| `finding` | what `sapwood node check` found about one thing that it looked at |
| `forward` | `sapwood forward`: a port of this machine that leads to a service of a node |
| `follow` | `sapwood follow`: what happens to messages at a node, a line each, until Ctrl-C |
| `http` | asks a node over HTTP, with nothing but the standard library: one request, one JSON answer |
| `idl` | `sapwood idl`: definitions of interfaces, which are read from files and folders |
| `idl_commands` | the names, options and help of the commands for interfaces |
| `locate` | `sapwood node locate`: where a node finds its parent, or who could be one on this network |
| `message_commands` | the names, options and help of `sapwood send` and `sapwood receive` |
| `messages` | `sapwood send` and `sapwood receive`: an application's session from the command line |
| `node_api` | a node's API as commands use it: one address, one token, pages joined to lists |
| `operator_commands` | `sapwood operator token` |
| `options` | options that several commands have; and at once all those with which a node is asked |
| `output` | how commands speak: JSON or text on standard output, patience and errors on standard error |
| `plain` | plain commands: each asks a node one thing and prints the answer |
| `program` | the program `sapwood`: a node is run without the machinery of the command line |
| `queues` | `sapwood queues`: what waits at a node, or in one queue |
| `recover` | `sapwood node recover`, and the look at a store that `node check` takes |
| `definition_commands`, `definitions` | definitions of a node to a file and from one |
| `route_commands` | the names, options and help of the commands that change routes, here and elsewhere |
| `routes` | `sapwood route add|remove`: how messages go from now on |
| `run` | `sapwood node run`: load the file, set the log up, run the node until it is told to stop |
| `sections` | the list of all commands, in the order in which somebody new needs them |
| `shell` | `sapwood shell`: a prompt, or a script, at the cells of nodes and at services |
| `simulate` | `sapwood simulate`: a whole chain for a day in one process |
| `status` | `sapwood status`: a running node as it says of itself, for people or as JSON |
| `subscriptions` | `sapwood subscription end` |
| `tls` | what a command trusts and shows on https and wss |
| `top` | `sapwood top`: one node, live, in the terminal |
| `trace` | `sapwood trace`: the way of a message through the tree hop by hop |
| `views` | how answers of plain commands look to people: one module for each noun of `broker.api` |
"""
