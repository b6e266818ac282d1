"""`python -m broker.cli` is `sapwood`."""

from broker.cli.app import main

main()
