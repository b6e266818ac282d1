"""paho-mqtt in asyncio, for whatever speaks MQTT: the carrier and the bridge to Mosquitto.

| module | what to find there |
|---|---|
| `watch` | the socket of a paho client on the event loop |
| `library` | paho itself, loaded without what a node never asks it for |
| `texts` | what may stand in a text of MQTT |
"""
