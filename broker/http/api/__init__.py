"""The HTTP JSON API: the operations of `broker.api` served, and described.

| module | |
|---|---|
| `api` | serves the operations |
| `following` | those that answer with a stream |
| `description` | their OpenAPI description |
"""

from broker.http.api.api import Api

__all__ = ["Api"]
