"""`python -m audit`: the same as `sapwood audit`."""

from audit.cli import main

raise SystemExit(main())
