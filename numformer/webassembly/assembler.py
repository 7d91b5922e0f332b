"""From WebAssembly's text format to its bytes: as much of it as `product.wat` needs.

Expressions are folded: ``(i32.add (local.get $i) (i32.const 4))``. Each is written after its
operands, as on a stack. The encoding is that of chapter 5 of the WebAssembly specification.
"""

import re

TYPES = {"i32": 0x7f, "v128": 0x7b}
MEMORY, GLOBAL, FUNCTION = 2, 3, 0                    # kinds of imports and exports
EMPTY, END, ELSE = 0x40, 0x0b, 0x05
BLOCKS = {"block": 0x02, "loop": 0x03, "if": 0x04}
# of instructions with operands alone
PLAIN = {"select": b"\x1b", "i32.eqz": b"\x45", "i32.eq": b"\x46", "i32.ne": b"\x47",
         "i32.lt_s": b"\x48", "i32.gt_s": b"\x4a", "i32.ge_s": b"\x4e", "i32.add": b"\x6a",
         "i32.sub": b"\x6b", "i32.mul": b"\x6c", "i32.and": b"\x71", "i32.or": b"\x72",
         "f32x4.add": b"\xfd\xe4\x01", "f32x4.mul": b"\xfd\xe6\x01",
         "f64x2.add": b"\xfd\xf0\x01", "f64x2.mul": b"\xfd\xf2\x01"}
# of instructions that read or write memory: (bytes, how often 2 is in the alignment)
MEMORIES = {"i32.load": (b"\x28", 2), "f32.load": (b"\x2a", 2), "f64.load": (b"\x2b", 3),
            "i32.store": (b"\x36", 2), "f32.store": (b"\x38", 2), "f64.store": (b"\x39", 3),
            "v128.load": (b"\xfd\x00", 2), "v128.store": (b"\xfd\x0b", 2),
            "v128.load32_splat": (b"\xfd\x09", 2), "v128.load64_splat": (b"\xfd\x0a", 3)}
# of instructions with the index of a name
NAMED = {"local.get": 0x20, "local.set": 0x21, "local.tee": 0x22, "global.get": 0x23, "call": 0x10,
         "br": 0x0c, "br_if": 0x0d}


def assemble(text):
    """The bytes of a module.

    Parameters
    ----------
    text : str

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If the text has brackets without a partner, or an instruction that is not known here.

    Examples
    --------
    >>> assemble("(module)").hex()
    '0061736d01000000'
    """
    (_, *parts), = _parsed(text)
    imports = [part for part in parts if part[0] == "import"]
    functions = [part for part in parts if part[0] == "func"]
    globals_ = [part[3][1] for part in imports if part[3][0] == "global"]
    names = {"call": [function[1] for function in functions], "global.get": globals_}
    types = [[part for part in function if part[0] == "param"] for function in functions]
    sections = [
        (1, [b"\x60" + _vector([bytes([TYPES[kind]]) for *_, kind in each]) + b"\x00"
             for each in types]),
        (2, [_name(part[1]) + _name(part[2]) + _imported(part[3]) for part in imports]),
        (3, [_unsigned(number) for number, _ in enumerate(functions)]),
        (7, [_name(part[1]) + bytes([FUNCTION]) + _unsigned(number)
             for number, function in enumerate(functions) for part in function
             if part[0] == "export"]),
        (10, [_sized(_body(function, names)) for function in functions])]
    return b"\0asm\1\0\0\0" + b"".join(
        bytes([number]) + _sized(_vector(entries)) for number, entries in sections if entries)


def _parsed(text):
    """Nested lists of the words in nested brackets, without comments."""
    stack = [[]]
    for word in re.findall(r'[()]|"[^"]*"|[^\s()]+', re.sub(r";;.*", "", text)):
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) < 2:
                raise ValueError("a bracket is closed that was not opened")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    if len(stack) > 1:
        raise ValueError("a bracket is not closed")
    return stack[0]


def _imported(what):
    """(memory 0) or (global $name i32)."""
    if what[0] == "memory":
        return bytes([MEMORY, 0]) + _unsigned(int(what[1]))
    return bytes([GLOBAL, TYPES[what[2]], 0])


def _body(function, names):
    """Declarations of locals and the instructions of a function."""
    parts = [part for part in function[2:] if part[0] in ("param", "local")]
    code = [part for part in function[2:] if part[0] not in ("param", "local", "export")]
    names = {**names, "local.get": [name for _, name, _ in parts]}
    names["local.set"] = names["local.tee"] = names["local.get"]
    own = [b"\x01" + bytes([TYPES[kind]]) for what, _, kind in parts if what == "local"]
    return _vector(own) + b"".join(_code(each, names, []) for each in code) + bytes([END])


def _code(expression, names, labels):
    """The bytes of an expression; `labels` are the blocks around it, the innermost first."""
    word, *rest = expression
    if word in ("block", "loop"):
        name, *inside = rest
        return bytes([BLOCKS[word], EMPTY]) + _all(inside, names, [name, *labels]) + bytes([END])
    if word == "if":                                  # (if condition (then ...) (else ...))
        condition, (_, *then), *other = rest
        found = _code(condition, names, labels) + bytes([BLOCKS[word], EMPTY])
        found += _all(then, names, [None, *labels])
        if other:
            found += bytes([ELSE]) + _all(other[0][1:], names, [None, *labels])
        return found + bytes([END])
    if word == "i32.const":
        return b"\x41" + _signed(int(rest[0]))
    if word == "v128.const":                          # zeros alone
        return b"\xfd\x0c" + bytes(16)
    if word in NAMED:
        name, *operands = rest
        index = (labels if word.startswith("br") else names[word]).index(name)
        return _all(operands, names, labels) + bytes([NAMED[word]]) + _unsigned(index)
    if word in MEMORIES:
        offset = int(rest.pop(0).removeprefix("offset=")) if isinstance(rest[0], str) else 0
        code, alignment = MEMORIES[word]
        return _all(rest, names, labels) + code + _unsigned(alignment) + _unsigned(offset)
    if word not in PLAIN:
        raise ValueError(f"the instruction {word} is not known here")
    return _all(rest, names, labels) + PLAIN[word]


def _all(expressions, names, labels):
    return b"".join(_code(each, names, labels) for each in expressions)


def _vector(entries):
    return _unsigned(len(entries)) + b"".join(entries)


def _sized(data):
    return _unsigned(len(data)) + data


def _name(quoted):
    return _sized(quoted.strip('"').encode())


def _unsigned(number):
    """LEB128: seven bits a byte, the lowest first; the eighth says that more follow."""
    found = []
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _signed(number):
    found = []
    while not -64 <= number < 64:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number & 127])
