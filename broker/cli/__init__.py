"""The command line.

Law: `app` only names commands and options. What a command needs is imported when it runs, so that
`sapwood --help` never waits for what it does not use. A command prints text for people, or JSON with
`--json`; what went wrong goes to standard error. Exit codes: 0 well, 1 failed, 2 wrong usage or
configuration.
"""
