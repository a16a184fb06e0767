"""What has been encoded is not encoded again: by this process or another, or after a crash."""

import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

from bacoun.encoders import EmbeddingCache, PhotoError, Pretrained, encode_cached
from bacoun.encoders.cache import cache_folder


@dataclass(frozen=True)
class Letters(Pretrained):
    """How often each vowel occurs in a text; counts what it is asked."""

    kind = "letters"
    pinned = "0" * 64
    scale: float = 1.0

    asked = []  # noqa: RUF012 - shared by all, and emptied by each test

    def _load(self):
        return None

    def _weights(self):
        return None

    def _run(self, weights, batch):
        self.asked.extend(batch)
        return np.float32([[self.scale * text.count(vowel) for vowel in "aeiou"] for text in batch])


@pytest.fixture(autouse=True)
def asked():
    Letters.asked.clear()
    return Letters.asked


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path)


def test_a_hit_computes_nothing_and_equal_items_are_computed_once(cache, asked):
    texts = ["banana", "echo", "banana", "io", "echo"]
    vectors = encode_cached(Letters(), texts, cache=cache)
    np.testing.assert_array_equal(vectors, Letters().encode(texts))
    assert (vectors.dtype, sorted(asked[:3])) == (np.float32, ["banana", "echo", "io"])
    asked.clear()
    again = encode_cached(Letters(), texts[::-1], cache=EmbeddingCache(cache.path.parent))
    np.testing.assert_array_equal(again, vectors[::-1])
    assert asked == []
    encode_cached(Letters(), [*texts, "new"], cache=cache)
    assert asked == ["new"]


def test_other_settings_or_weights_are_another_encoder(cache, asked, monkeypatch):
    encode_cached(Letters(), ["a"], cache=cache)
    np.testing.assert_array_equal(encode_cached(Letters(2.0), ["a"], cache=cache)[0, :2], [2, 0])
    monkeypatch.setattr(Letters, "pinned", "1" * 64)
    encode_cached(Letters(), ["a"], cache=cache)
    assert asked == ["a"] * 3


def test_progress_counts_different_items_to_the_end(cache):
    texts = [str(i) for i in range(300)]
    told = []
    encode_cached(Letters(), texts[:50], cache=cache)
    encode_cached(Letters(), texts * 2, lambda *each: told.append(each), cache=cache)
    assert told == [(178, 300), (300, 300)]
    encode_cached(Letters(), texts, lambda *each: told.append(each), cache=cache)
    assert told[2:] == [(300, 300)]


def test_an_interrupted_run_goes_on_where_it_was(cache, asked):
    texts = [str(i) for i in range(400)]

    def stop(done, planned):
        if done >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_cached(Letters(), texts, stop, cache=cache)
    asked.clear()
    encode_cached(Letters(), texts, cache=cache)
    assert len(asked) == 400 - 256


def test_nothing_and_foreign_encoders_are_encoded_as_they_are(cache):
    class Lengths:
        def encode(self, items):
            return np.float32([[len(item)] for item in items])

    assert encode_cached(Lengths(), ["ab", "c"], cache=cache).tolist() == [[2], [1]]
    assert encode_cached(Letters(), [], cache=cache).shape == (0, 5)
    assert not cache.path.exists()


def test_a_corrupt_file_is_set_aside_and_begun_anew(cache, asked):
    encode_cached(Letters(), ["a", "b"], cache=cache)
    for damage in (b"not SQLite at all" * 100, cache.path.read_bytes()[:5000] + b"\xff" * 9000):
        cache.path.write_bytes(damage)
        asked.clear()
        assert encode_cached(Letters(), ["a", "b"], cache=cache)[0, 0] == 1
        assert sorted(asked) == ["a", "b"]
        assert cache.path.with_name(cache.path.name + ".corrupt").read_bytes() == damage
        encode_cached(Letters(), ["a", "b"], cache=EmbeddingCache(cache.path.parent))
        assert len(asked) == 2


def test_without_a_folder_to_write_to_vectors_are_kept_in_memory(tmp_path, asked):
    (tmp_path / "file").touch()
    cache = EmbeddingCache(tmp_path / "file" / "folder")
    for _ in range(2):
        assert encode_cached(Letters(), ["a", "b"], cache=cache)[0, 0] == 1
    assert sorted(asked) == ["a", "b"]


def test_the_oldest_are_removed_from_a_full_file(tmp_path, asked):
    cache = EmbeddingCache(tmp_path, most_bytes=200_000)
    for start in range(0, 10_000, 500):
        encode_cached(Letters(), [str(i) for i in range(start, start + 500)], cache=cache)
    assert cache.path.stat().st_size < 300_000
    asked.clear()
    encode_cached(Letters(), [str(i) for i in range(9_900, 10_000)], cache=cache)
    assert asked == []
    encode_cached(Letters(), ["0"], cache=cache)
    assert asked == ["0"]


def test_the_users_folder_is_that_of_the_variables(monkeypatch, tmp_path, asked):
    monkeypatch.delenv("BACOUN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "bacoun"
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path / "own"))
    encode_cached(Letters(), ["a"])
    encode_cached(Letters(), ["a"])
    assert asked == ["a"]
    assert list((tmp_path / "own").glob("*.sqlite"))


def test_processes_write_the_same_file_at_once(tmp_path):
    code = """
        import sys
        import numpy as np
        from bacoun.encoders import EmbeddingCache
        cache, offset = EmbeddingCache(sys.argv[1]), int(sys.argv[2])
        for start in range(offset, offset + 400, 20):  # the second half is also the next one's
            cache.put({str(i).encode(): np.float32([i]) for i in range(start, start + 20)})
        assert cache._is_on_disk
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    running = [subprocess.Popen([*command, str(200 * i)]) for i in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    keys = [str(i).encode() for i in range(1000)]
    assert {key: v.tolist() for key, v in EmbeddingCache(tmp_path).get(keys).items()} == {
        str(i).encode(): [i] for i in range(1000)
    }
    connection = sqlite3.connect(tmp_path / "embeddings-1.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_bad_photo_is_named_before_any_is_encoded(cache, tmp_path):
    from bacoun.encoders import EfficientNetLite0

    with pytest.raises(PhotoError, match=r"none.png' must be a photo"):
        encode_cached(EfficientNetLite0(), [tmp_path / "none.png"], cache=cache)
