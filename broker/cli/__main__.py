"""`python -m broker.cli` is `sapwood`."""

from broker.cli.program import main

main()
