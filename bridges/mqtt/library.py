"""paho-mqtt, loaded without dnspython and without Python's HTTP client.

paho loads dnspython wherever that is installed, and uses it for SRV records alone. A node never asks paho for
those: it finds its addresses itself. The HTTP client finds a proxy in the environment, and only where PySocks
is installed: then it is loaded.
"""

from importlib.util import find_spec

from bridges.unneeded import without

__all__ = ["paho"]

_PROXIES = () if find_spec("socks") else ("urllib.request",)
with without(*_PROXIES, absent=("dns.resolver",)):
    import paho.mqtt.client as paho
