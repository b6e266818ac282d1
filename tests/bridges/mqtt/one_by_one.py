"""The packets of a stream, each by itself, though some came in a row."""

from collections.abc import Iterator

from bridges.mqtt import packets
from bridges.mqtt.readers import Acknowledged, Alike, PacketReader, ServerReader


def one_by_one(
    reader: PacketReader | ServerReader, data: bytes
) -> Iterator[packets.Packet | packets.Control]:
    for packet in reader.feed(data):
        if isinstance(packet, Alike):
            yield from packet.publishes
        elif isinstance(packet, Acknowledged):
            yield from (packets.PacketAnswer(packets.PUBACK, each) for each in packet.packet_ids)
        else:
            yield packet
