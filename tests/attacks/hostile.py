"""Hostile values, and mutations of bytes and of JSON."""

import json

VALUES = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.5, 2**31, 2**53, 2**63, 2**64, 10**18, 10**30, 10**99,
    10**7, 10**8, 10**9, 1e308, -1e308, 1e-308, "", "0", "x", "\x1b[2J\x1b]0;t\x07", "\u202etxt",
    "a\r\nb", "../../etc/passwd", "/dev/zero", "\x00", "\ud800", "9" * 5000, "x" * 100_000,
    [], {}, [[]], [None], {"": None}, [0] * 1000, {"\x1b[31m": 1},
)
TEXTS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 101, "9" * 5000, "[" * 100_000,
         '{"a":' * 100_000, "[" * 500 + "]" * 500, '{"a":1,"a":2}', "1.5.5", "0x10", "'x'", "01",
         '"\\ud800"', '"\\u0000"', "True", "")
MARK = '"?HOSTILE?"'


def mutated_bytes(rng, data):
    """Bytes with one to three changes: flipped, cut, repeated, inserted, or from elsewhere."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(data) + 1))
        stop = min(len(data), at + int(2 ** rng.uniform(0, 8)))
        kind = rng.integers(0, 8)
        if kind <= 1 and at < len(data):
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            del data[at:stop]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at:stop] * int(rng.integers(1, 4))
        elif kind == 5:
            data[at:stop] = rng.bytes(stop - at)
        elif kind == 6:
            data[at:at] = rng.choice([b"\0", b"\xff", b"\n", b"[", b'"', b"\x1b[2J", b"9" * 400,
                                      "\u202e".encode()])
        else:
            other = int(rng.integers(0, len(data) + 1))
            data[at:stop] = data[other:other + stop - at]
    return bytes(data)


def places(value, path=()):
    """The path of every part of a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        for key, part in (value.items() if isinstance(value, dict) else enumerate(value)):
            yield from places(part, (*path, key))


def mutated_json(rng, value):
    """(text, path): a JSON text with one part replaced, removed, added or renamed."""
    value = json.loads(json.dumps(value))
    found = list(places(value))
    path = found[rng.integers(1, len(found))]
    owner, key = value, path[-1]
    for part in path[:-1]:
        owner = owner[part]
    kind = rng.integers(0, 10)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, dict):
        owner[f"{key}\x1b[1m"] = owner.pop(key)
    elif kind == 2 and isinstance(owner, dict):
        owner[str(rng.choice(["colour", "__class__", "", "\u202e"]))] = VALUES[
            rng.integers(len(VALUES))]
    elif kind == 3 and isinstance(owner[key], (int, float)):
        owner[key] = type(owner[key])(owner[key] * rng.choice([-1, 2, 10, 10**6, 10**12]))
    elif kind == 4:
        owner[key] = "?HOSTILE?"
        text = TEXTS[rng.integers(len(TEXTS))]
        return json.dumps(value).replace(MARK, text), path
    elif kind == 5:
        other = value
        for part in found[rng.integers(1, len(found))]:
            other = other[part]
        owner[key] = json.loads(json.dumps(other))
    else:
        owner[key] = VALUES[rng.integers(len(VALUES))]
    return json.dumps(value), path
