"""paho-mqtt, loaded without dnspython.

paho loads dnspython wherever that is installed, and uses it for SRV records alone. A node never asks paho for
those: it finds its addresses itself. At each start beside a Mosquitto these were some eighty modules in vain.

Wrinkle: while paho is loaded, `None` stands for dnspython among the loaded modules, and Python takes a module
that is None for one that is not installed. Nothing loads dnspython in a thread, so nobody else meets it.
"""

import sys

__all__ = ["paho"]

_UNWANTED = "dns.resolver"
_loaded = sys.modules.get(_UNWANTED)
sys.modules[_UNWANTED] = None  # type: ignore[assignment]
try:
    import paho.mqtt.client as paho
finally:
    if _loaded is None:
        del sys.modules[_UNWANTED]
    else:
        sys.modules[_UNWANTED] = _loaded
