"""MQTT for whatever speaks it: the door of applications, the carrier and the bridge to Mosquitto.

| module | what to find there |
|---|---|
| `watch` | the socket of a paho client on the event loop |
| `library` | paho itself, loaded without what a node never asks it for |
| `bulk` | paho, with messages past it, many at once |
| `readers`, `framing` | streams of bytes, and where the packets in them begin and end |
| `packets`, `fields`, `properties` | the packets of MQTT 3.1.1 and 5 as bytes |
| `texts` | what may stand in a text of MQTT |
"""
