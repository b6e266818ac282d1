"""Words in texts for people."""


def counted(count: int, noun: str, *verb: str) -> str:
    """'1 message', '2 messages', '2 entries'; with both forms of a verb '1 message is', '2 messages are'."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"
    return " ".join([str(count), noun, *([verb[count != 1]] if verb else [])])
