"""The HTTP JSON API of administration: operations, their descriptions, and the OpenAPI text of them."""

from broker.http.api.api import Api

__all__ = ["Api"]
