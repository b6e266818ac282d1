"""What an operator sees of one node and does to it: answers for the HTTP API, the command line and others.

Law: nothing takes as long as there are messages without letting others have their turn (`pages`); every list
has a bound; no session's token is in any answer (`masked`). Times in seconds, sizes in bytes.
"""

from broker.administration.administration import Administration

__all__ = ["Administration"]
