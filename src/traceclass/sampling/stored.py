"""What lies in a run directory, read and checked: the manifest, the chunks, and their arrays.

A chunk names its arrays by plain paths:

    draws/ends                  the draws of one functional, (chains, draws, ...)
    chains/state/position       the state of all chains after them, leaf by leaf
    chains/moments/ends/mean    running moments
    adaptation/...              what warm-up has learnt

Format 1 wrote the chains by JAX's text for a path, `chains.moments['ends'].mean`; such names are
translated when they are read.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.sampling.adaptation.windows import Memory
from traceclass.sampling.chunk import Chain
from traceclass.sampling.files import (
    FORMAT,
    DamagedFileError,
    Entry,
    StoreError,
    UnknownFormatError,
    check_format,
    json_bytes,
    read_arrays,
    read_header,
    read_json,
)
from traceclass.sampling.identity import Identity
from traceclass.sampling.moments import Moments

MANIFEST = "manifest.json"
CHUNK = re.compile(r"chunk-(\d{8})\.tc")
DRAWS, CHAINS, ADAPTATION = "draws/", "chains", "adaptation/"
POSITION = f"{CHAINS}/state/position"
# One step of a path in JAX's text: an attribute, an index, or the repr of a key.
_STEP = re.compile(
    r"\.(\w+)|\[(?:<flat index )?(\d+)>?\]|\[('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]"
)


class Chunk(NamedTuple):
    """One committed piece of a run; its header is read again when it is needed."""

    path: Path
    first_draw: int
    num_draws: int


class Contents(NamedTuple):
    """The chunks of a run that follow one another, and what is wrong with the next, if it is."""

    chunks: list[Chunk]
    damage: str | None

    @property
    def num_draws(self) -> int:
        return self.chunks[-1].first_draw + self.chunks[-1].num_draws if self.chunks else 0

    def last(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Meta values and arrays of the last chunk, without its draws."""
        path = self.chunks[-1].path
        header = read_header(path)
        names = [name for name in header.entries if not name.startswith(DRAWS)]
        meta, arrays = read_arrays(path, names)
        return meta, arrays if header.format == FORMAT else _translated(arrays)


class Manifest(NamedTuple):
    """What a run is, and where a user forced it to go on though it was not the same.

    `words` say what prior and likelihood were made from; older manifests have none.
    """

    identity: Identity
    forced: list[dict[str, Any]]
    words: dict[str, str]

    @property
    def tag(self) -> str:
        """A name of the run that its chunks carry."""
        return _sha256(self.identity)

    @property
    def checksums(self) -> dict[str, str]:
        """Of what all versions have, and of the words, by their names in the file."""
        whole = {"identity": self.identity, "forced": self.forced}
        return {"sha256": _sha256(whole), "sha256 of words": _sha256(self.words)}


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a run directory."""
    if not path.is_dir():
        raise StoreError(f"{path} is not a directory; give the store of a run.")
    if not os.path.lexists(path / MANIFEST):
        raise StoreError(f"{path} is not the store of a run: it has no {MANIFEST}.")
    content = read_json(path / MANIFEST)
    try:
        identity = dict(content["identity"])
        if identity.get("library format", FORMAT) > FORMAT:
            check_format(path, identity["library format"], content.get("version"))
        manifest = Manifest(identity, list(content["forced"]), dict(content.get("words", {})))
        checksums = {name: content.get(name) for name in manifest.checksums}
        if "words" not in content:  # an earlier version wrote it
            checksums["sha256 of words"] = manifest.checksums["sha256 of words"]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DamagedFileError(f"{path / MANIFEST} is damaged: it lacks {error}.") from error
    if checksums != manifest.checksums:
        raise DamagedFileError(f"{path / MANIFEST} is damaged: its checksum is another.")
    return manifest


def check_manifest(path: Path) -> None:
    """Refuse a manifest that is not, byte by byte, what was written."""
    read_manifest(path)
    file = path / MANIFEST
    if file.read_bytes() != json_bytes(read_json(file)):
        raise DamagedFileError(f"{file} is damaged: it is not laid out as it was written.")


def contents_of(path: Path, manifest: Manifest) -> Contents:
    """Chunks by their headers, up to the first that is missing or is not what it should be.

    A chunk in an unknown format is no damage: a newer version of the library wrote it.
    """
    numbers = sorted(
        int(match[1]) for match in map(CHUNK.fullmatch, os.listdir(path)) if match is not None
    )
    chunks: list[Chunk] = []
    for number in range(numbers[-1] + 1 if numbers else 0):
        file = path / f"chunk-{number:08d}.tc"
        try:
            chunks.append(_checked_chunk(file, chunks, manifest))
        except UnknownFormatError:
            raise
        except StoreError as error:
            return Contents(chunks, str(error))
    return Contents(chunks, None)


def _checked_chunk(file: Path, before: list[Chunk], manifest: Manifest) -> Chunk:
    """The chunk in `file`, if it is the next after `before`."""
    header = read_header(file)
    first_draw = Contents(before, None).num_draws
    wanted = {"run": manifest.tag, "number": len(before), "first_draw": first_draw}
    for name, value in wanted.items():
        if header.meta.get(name) != value:
            raise DamagedFileError(
                f"{file} is not the next of this run: its {name} is {header.meta.get(name)!r}, "
                f"not {value!r}."
            )
    num_draws = header.meta.get("num_draws")
    draws = {name: entry for name, entry in header.entries.items() if name.startswith(DRAWS)}
    sizes = {entry.shape[1:2] for name, entry in draws.items() if name != DRAWS + "position"}
    is_short = any(len(entry.shape) < 2 for entry in draws.values())
    if is_short or not isinstance(num_draws, int) or (sizes or {(0,)}) != {(num_draws,)}:
        raise DamagedFileError(f"{file} is damaged: its draws differ in number.")
    return Chunk(file, first_draw, num_draws)


class StoredDraws(Mapping[str, np.ndarray]):
    """Draws by name, (chains, draws, ...), read from the chunks each time they are asked for."""

    def __init__(self, chunks: Sequence[Chunk]):
        self._chunks = [chunk for chunk in chunks if chunk.num_draws]
        first = read_header(self._chunks[0].path).entries if self._chunks else {}
        self._like = {
            name.removeprefix(DRAWS): entry
            for name, entry in first.items()
            if name.startswith(DRAWS)
        }

    @property
    def folder(self) -> Path | None:
        """The run directory; None where there are no draws."""
        return self._chunks[0].path.parent if self._chunks else None

    @property
    def num_bytes(self) -> int:
        """Bytes of the files that hold the draws."""
        return sum(chunk.path.stat().st_size for chunk in self._chunks)

    def __getitem__(self, name: str) -> np.ndarray:
        like = self._like[name]
        stored = DRAWS + name
        sizes = [self._size(chunk, stored, like) for chunk in self._chunks]
        whole = np.empty((like.shape[0], sum(sizes), *like.shape[2:]), like.dtype)
        done = 0
        for chunk, size in zip(self._chunks, sizes, strict=True):
            whole[:, done : done + size] = read_arrays(chunk.path, [stored])[1][stored]
            done += size
        return whole

    def _size(self, chunk: Chunk, stored: str, like: Entry) -> int:
        """Draws of one array in a chunk; all its other sizes are those of the first chunk's."""
        entry = read_header(chunk.path).entries.get(stored)
        if entry is None or _besides_draws(entry) != _besides_draws(like):
            raise DamagedFileError(f"{chunk.path} is damaged: {stored!r} is not like the others.")
        return entry.shape[1]

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape that one array has, from the headers alone."""
        like = self._like[name]
        draws = sum(self._size(chunk, DRAWS + name, like) for chunk in self._chunks)
        return (like.shape[0], draws, *like.shape[2:])

    def __iter__(self) -> Iterator[str]:
        return iter(self._like)

    def __len__(self) -> int:
        return len(self._like)


def _besides_draws(entry: Entry) -> tuple[Any, ...]:
    """All that must agree between chunks, or joining small ones could claim any memory."""
    return (entry.dtype, len(entry.shape), entry.shape[0], entry.shape[2:])


def named_state(chains: Chain, learnt: Memory) -> dict[str, np.ndarray]:
    """Chains and what warm-up has learnt, as plain arrays by name; `chains_in` is the way back.

    A state that computes its position, as one with replicas does, has it written beside its arrays:
    whoever opens the run does not know its kernel.
    """
    leaves = jax.tree_util.tree_leaves_with_path(chains)
    state = {_name_of(path): _plain(leaf) for path, leaf in leaves}
    if len(state) < len(leaves):
        raise TypeError("two arrays of the kernel's state have the same name.")
    state.setdefault(POSITION, np.asarray(chains.state.position))
    return state | {ADAPTATION + name: array for name, array in learnt.items()}


def learnt_in(arrays: Mapping[str, np.ndarray]) -> Memory:
    """What warm-up had learnt."""
    return {n.removeprefix(ADAPTATION): a for n, a in arrays.items() if n.startswith(ADAPTATION)}


def moments_in(arrays: Mapping[str, Any], names: Sequence[str]) -> dict[str, Moments]:
    """The running moments of the named functionals."""
    return {
        name: Moments(
            *(arrays[f"{CHAINS}/moments/{_escaped(name)}/{field}"] for field in Moments._fields)
        )
        for name in names
    }


def chains_in(arrays: Mapping[str, np.ndarray], like: Chain) -> Chain:
    """The chains; `like` has the shapes they must have for this kernel."""

    def restored(path: Any, leaf: Any) -> Any:
        name = _name_of(path)
        array = arrays.get(name)
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if array is not None and is_key:
            return jax.random.wrap_key_data(jnp.asarray(array))
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StoreError(
                f"the chains in the store do not fit this kernel: {name} should be "
                f"{leaf.dtype}{list(leaf.shape)}."
            )
        return array

    return jax.tree_util.tree_map_with_path(restored, like)


def _plain(leaf: Any) -> np.ndarray:
    """An array of plain numbers; a JAX key is stored as its data."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _name_of(path: Sequence[Any]) -> str:
    """The plain path of a leaf of the chains."""
    return "/".join([CHAINS, *(_escaped(_word_of(step)) for step in path)])


def _word_of(step: Any) -> str:
    """An attribute's name, a mapping's key or a sequence's index, whichever JAX says it is."""
    words = (getattr(step, kind) for kind in ("name", "key", "idx") if hasattr(step, kind))
    return str(next(words))


def _escaped(word: str) -> str:
    """A word without the slash that separates words."""
    return word.replace("%", "%25").replace("/", "%2F")


def _translated(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of a chunk of format 1 under the names of format 2."""
    renamed = {_renamed(name): array for name, array in arrays.items()}
    replicas = renamed.get(f"{CHAINS}/state/replicas/position")
    if replicas is not None:
        # (chains, temperatures, z): the posterior's is the first.
        renamed[POSITION] = replicas[:, 0]
    return renamed


def _renamed(name: str) -> str:
    """`chains.moments['ends'].mean` as `chains/moments/ends/mean`; other names stay."""
    if not name.startswith((CHAINS + ".", CHAINS + "[")):
        return name
    steps = _STEP.findall(name.removeprefix(CHAINS))
    words = [attribute or index or ast.literal_eval(quoted) for attribute, index, quoted in steps]
    return "/".join([CHAINS, *(_escaped(word) for word in words)])
