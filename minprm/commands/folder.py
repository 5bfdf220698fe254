"""A checkpoint as a folder that is served: what minprm export writes, and minprm serve starts."""

import os
import shlex
import shutil
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from minprm.arms.about import asked_of, read_about, write_about
from minprm.arms.ladder import read_ladder, require_row
from minprm.commands.serving import TOOL, Serving, serving, tool_parser
from minprm.constants import fail
from minprm.load.pretrained import base_of, copy_adapters, load_merged, pretrained
from minprm.report.files import RUNS

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM makes room for


def rows_of(about: dict) -> dict[str, dict]:
    """The rows of the ladder with this checkpoint's seed, or its own row; {} where none is known.

    The ladder is looked for in runs/, and counts where it holds the same row.
    """
    row = about.get("row")
    if not row:
        return {}
    try:
        require_row(row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fail(f"minprm.json holds a broken row ({error!r}): replace it by an empty one, {{}}")
    ladder = read_ladder(RUNS / about["run"] / "ladder.json")
    if row not in ladder.get(about["arm"], []):
        return {about["arm"]: row}
    order = ["random", *(arm for arm in ladder if arm not in ("random", "expert")), "expert"]
    found = {}
    for arm in order:
        same_seed = [other for other in ladder.get(arm, []) if other["seed"] == row["seed"]]
        if same_seed:
            found[arm] = same_seed[0]
    return found


def how_to_serve(tokenizer: PreTrainedTokenizerBase, about: dict) -> Serving:
    """How vLLM serves the checkpoint, by what its minprm.json says."""
    if not about:  # a foreign model's calls are read where its template writes some
        return serving(
            tokenizer, asked_of({}), [TOOL] if tool_parser(tokenizer) else [], thinks=True
        )
    # as it was measured: what acts at once would have its answers taken for thoughts
    thinks = about["asked"]["think"] and about["row"].get("thought_rate", 1.0) >= 0.5
    return serving(tokenizer, about["asked"], about["tools"], thinks)


def command(out: str, base: str, rank: int, served: Serving) -> str:
    """The line that serves the folder, which holds adapters of this rank; 0: a whole model."""
    words = ["vllm", "serve", out]
    if rank:
        room = next((size for size in RANKS if size >= rank), rank)
        words = ["vllm", "serve", base, "--enable-lora", "--max-lora-rank", str(room)]
        words += ["--lora-modules", f"{Path(out).absolute().name}={out}"]
    return shlex.join([*words, *served.flags])


def write(
    checkpoint: str,
    out: Path,
    dtype: str | None,
    tokenizer: PreTrainedTokenizerBase,
    ends: list[int],
    about: dict,
    text: str,
) -> None:
    """Writes the whole folder, or nothing.

    dtype: of the whole model; None: the adapters alone are copied. `ends`: the tokens that end a
    turn. text: the model card.
    """
    half = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        if dtype:
            model = load_merged(checkpoint, dtype)
            stop_at(model.generation_config, ends)
            model.save_pretrained(half)
        else:
            copy_adapters(checkpoint, half)
        tokenizer.save_pretrained(half)
        if about:
            write_about(half, about)
        (half / "README.md").write_text(text, encoding="utf-8")
        os.rename(half, out)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def stop_at(generation_config, ends: list[int]) -> None:
    """Puts the tokens that end a turn among those at which a server stops."""
    known = generation_config.eos_token_id
    others = known if isinstance(known, list) else [known]
    ends = [*ends, *(token for token in others if token not in (None, *ends))]
    generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]


def push(folder: str, name: str) -> None:
    """Uploads the folder to a new private repository."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(name, private=True)
        api.upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # of the network, of the hub, or of a name that it does not take
        reason = (str(error) or repr(error)).splitlines()[0]
        fail(f"--push {name}: {reason}; {folder} is written: hf upload {name} {folder}")
    print(f"pushed to the private repository {name}")


def serve_command(checkpoint: str) -> tuple[list[str], list[str]]:
    """(the words of `vllm serve` for a checkpoint, sentences for its clients)."""
    base, rank = base_of(checkpoint)
    tokenizer = pretrained(AutoTokenizer, checkpoint)
    served = how_to_serve(tokenizer, read_about(checkpoint))
    if not {*served.ends} & {tokenizer.eos_token_id, *stops_of(base)}:
        merge = " --merge" if rank else ""
        fail(
            f"a server of {checkpoint} would not stop where a turn ends: minprm export "
            f"{checkpoint} OUT{merge} writes a folder that says so, and minprm serve OUT serves it"
        )
    return shlex.split(command(checkpoint, base, rank, served)), served.notes


def stops_of(base: str) -> list[int]:
    """The tokens at which the engine stops, by what the files of a model say."""
    config = pretrained(AutoConfig, base)  # first: is there such a model at all
    file = "generation_config.json"
    if cached_file(base, file, _raise_exceptions_for_missing_entries=False):
        stops = pretrained(GenerationConfig, base).eos_token_id
    else:
        stops = GenerationConfig.from_model_config(config).eos_token_id
    return stops if isinstance(stops, list) else [stops]
