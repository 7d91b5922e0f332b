"""Files of safetensors: our bytes are those of the library, and each reads what the other wrote."""

import numpy as np
import pytest

from numformer.files import tensors
from numformer.files.tensors import order_of, read_header, tensors_of_file, write_tensors
from numformer.interop.tensors import INDEX, tensors_of

KINDS = ["u8", "i8", "f8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "?"]


def arrays_of(rng):
    """Names that need an escape, no axis, no elements, and every dtype."""
    found = {f"x.{kind}": rng.integers(0, 2, (2, 3)).astype(kind) for kind in KINDS}
    return found | {"a \"é\"": np.ones(3, np.float32), "empty": np.zeros((0, 4)),
                    "scalar": np.array(2.5, np.float32), "b": np.arange(4.0)}


def test_the_bytes_are_those_of_the_library(tmp_path, rng):
    from safetensors.numpy import save

    arrays, metadata = arrays_of(rng), {"text": "é\n\"\\ \x1f\x7f 語"}
    ordered = sorted(arrays.items(), key=lambda item: (order_of(item[1].dtype), item[0]))
    write_tensors(tmp_path / "f", [(name, x.dtype, x.shape, lambda x=x: x) for name, x in ordered],
                  metadata)
    assert (tmp_path / "f").read_bytes() == save(arrays, metadata)


def test_what_the_library_wrote_is_read(tmp_path, rng):
    from safetensors.numpy import save_file

    arrays = arrays_of(rng)
    save_file(arrays, tmp_path / "f", {"a": "b"})
    with open(tmp_path / "f", "rb") as file:
        assert read_header("f", file)[1] == {"a": "b"}
    found = tensors_of_file(tmp_path / "f")
    assert found.keys() == arrays.keys()
    for name, x in arrays.items():
        assert found[name].mapped().dtype == x.dtype and found[name].nbytes == x.nbytes
        np.testing.assert_array_equal(found[name].mapped(), x)


def test_what_the_format_does_not_have_is_refused(tmp_path):
    with pytest.raises(ValueError, match="x is complex128, which safetensors does not have"):
        write_tensors(tmp_path / "f", [("x", complex, (1,), lambda: np.zeros(1, complex))], {})
    assert not list(tmp_path.iterdir())


def with_header(path, header):
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    return path


MOST = 2**10                                          # arrays, in these tests
ARRAY = b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
LARGE = {                                             # by what there is too much of
    "arrays": b"{" + b",".join(b'"%d":%s' % (n, ARRAY) for n in range(MOST + 1)) + b"}",
    "numbers": b'{"a":{"dtype":"F32","shape":[' + b"0," * 16 * MOST + b'0],"data_offsets":[0,0]}}',
    "lists": b'{"a":' + b"[[[]]]," * 8 * MOST,
    "strings": b'{"a":[' + b'"",' * 16 * MOST + b'""]}',
}


@pytest.fixture
def few_arrays(monkeypatch):
    assert tensors.MOST_ARRAYS == 2**17 and tensors.MIB == 2**20
    monkeypatch.setattr(tensors, "MOST_ARRAYS", MOST)
    monkeypatch.setattr(tensors, "MIB", 2**10)


@pytest.mark.parametrize("kind", LARGE)
def test_a_header_with_too_many_parts_is_refused_before_it_is_parsed(
        kind, tmp_path, few_arrays, monkeypatch):
    monkeypatch.setattr(tensors, "parse_json", lambda text: pytest.fail("parsed"))
    with pytest.raises(ValueError, match=r"is no file of safetensors.*\(it names more than 1,024"):
        tensors_of_file(with_header(tmp_path / "f", LARGE[kind]))
    (tmp_path / INDEX).write_bytes(LARGE[kind])
    with pytest.raises(ValueError, match=r"is no index of safetensors \(it names more than 1,024"):
        tensors_of(tmp_path)


def test_as_many_arrays_as_a_model_may_have_are_read(tmp_path, few_arrays):
    header = b"{" + b",".join(b'"%d":%s' % (n, ARRAY) for n in range(MOST)) + b"}"
    assert len(tensors_of_file(with_header(tmp_path / "f", header))) == MOST


def test_what_metadata_holds_are_no_parts_of_the_header(tmp_path, few_arrays):
    text = '{[,"\\\\é' * 16 * MOST
    write_tensors(tmp_path / "f", [("x", float, (1,), lambda: np.ones(1))], {text: text})
    with open(tmp_path / "f", "rb") as file:
        assert read_header("f", file)[1] == {text: text}
