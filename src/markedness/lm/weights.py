"""The weights of one local model: what they are and whose, where they are, and how they are loaded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markedness.lm import gguf, served_by
from markedness.lm.base import ModelError
from markedness.lm.config import TransformersModel
from markedness.lm.progress import tell

if TYPE_CHECKING:
    from markedness.lm.scoring import Kind


class LocalWeights:
    """A folder beside params.yaml, a package that is converted into one, or a model of the hub.

    Parameters
    ----------
    config
        The model's block.
    root
        The folder of params.yaml.
    """

    def __init__(self, config: TransformersModel, root: Path) -> None:
        self.config = config
        self.root = root
        self.folder = root / config.path
        self._models: dict[str, Any] = {}
        self._loading = threading.Lock()
        self._served_by: str | None = None

    @cached_property
    def kind(self) -> Kind | None:
        """What the model's config.json says it is, read without torch; None when there is no such file here yet."""
        if self.config.gguf_package and not gguf.is_converted(self.folder):
            return "causal"
        try:
            config = json.loads(self._config_file().read_text(encoding="utf-8"))
        except (OSError, ValueError, ImportError):
            return None
        architecture = (config.get("architectures") or [""])[0]
        if config.get("is_encoder_decoder") or config.get("model_type") in ("t5", "mt5", "umt5", "byt5"):
            return "encoder-decoder"
        if architecture.endswith(("ForMaskedLM", "ForPreTraining")):
            return "masked"
        return "causal" if architecture else None

    def _config_file(self) -> Path:
        if self.folder.is_dir():
            return self.folder / "config.json"
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.config.path, "config.json", revision=self.config.revision)
        return Path(found if isinstance(found, str) else "")  # a folder's path where there is none: not readable

    @property
    def served_by(self) -> str:
        """Hash of the weights in the folder, or the hub's commit; "" while neither is here.

        ModelError where the folder holds the weights of another package than the model's.
        """
        if self._served_by is None:
            self._served_by = self._found()
        return self._served_by

    @served_by.setter
    def served_by(self, who: str) -> None:
        self._served_by = who

    def _found(self) -> str:
        if self.folder.is_dir():
            if self.config.gguf_package:
                gguf.refuse_other(self.config.gguf_package, self.folder)
            who = served_by.weights(self.folder, self._cache)
            served_by.note_package(who, gguf.source(self.folder), self._cache)
            return who
        if self.config.gguf_package:
            return ""
        return served_by.hub(self.config.path, self._commit) if self._commit else ""

    def may_be(self, who: str) -> bool:
        """Whether weights that are not here may be the model's.

        Not where they are known to be of another package, or of another version than the one that is installed.
        """
        package, (known, version) = self.config.gguf_package, served_by.package_of(who, self._cache)
        if package is None or not known:
            return True
        installed = gguf.find(package) if version else None
        return gguf.is_same(package, known) and (installed is None or installed.version == version)

    @property
    def _cache(self) -> Path:
        return self.root / ".markedness" / "weights.json"

    def refuse_other_weights(self, who: str) -> None:
        """ModelError where the files are not those of ``who`` ("": not known), in whose name answers are kept."""
        if who and self.folder.is_dir() and self._found() != who:
            raise ModelError(
                f"{self.config.path}: its files were changed while it answered; what it answered since is not kept: "
                "run again"
            )

    @property
    def _commit(self) -> str:
        """The commit of a hub model that is in the hub's cache; "" where none is."""
        try:
            snapshot = self._config_file().parent
        except (ImportError, ValueError):  # no such package, or a path that is no hub id
            return ""
        return snapshot.name if snapshot.parent.name == "snapshots" else ""

    def prepare(self, say: Callable[[str], None] = tell) -> None:
        """Convert the weights of a package if that is still to be done."""
        if self.config.gguf_package:
            gguf.convert(self.config.gguf_package, self.folder, say)

    def fetch(self, say: Callable[[str], None] = tell) -> None:
        """Fetch the weights, so that ``served_by`` is known; a hub model is fetched at one commit."""
        self.prepare(say)
        if not self.folder.is_dir() and not self._commit:
            self.load(self.config.dtype_text)
        self._served_by = None

    def check(self, say: Callable[[str], None] = tell) -> str:
        """Prepare everything that asking needs, and describe the model in one line."""
        converted = self.config.gguf_package and gguf.is_converted(self.folder)
        self.prepare(say)
        kind = self._known_kind()
        if not converted:
            self.load(self.config.dtype_text)
            self.unload()
        return f"a {kind} model of {len(self.tokenizer):,} tokens in {self.config.path}"

    def load(self, dtype: str) -> Any:
        """The model in one precision, in evaluation mode.

        Raises
        ------
        ModelError
            When packages or files are missing, or the files hold no language model.
        """
        with self._loading:
            if dtype not in self._models:
                self._models[dtype] = self._loaded(dtype)
            return self._models[dtype]

    def _loaded(self, dtype: str) -> Any:
        self.prepare()
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ModelError(
                f"the package '{error.name}' that local models need is not installed; "
                "install it with: pip install 'markedness[local]'"
            ) from error
        transformers.utils.logging.disable_progress_bar()
        auto = {
            "causal": transformers.AutoModelForCausalLM,
            "masked": transformers.AutoModelForMaskedLM,
            "encoder-decoder": transformers.AutoModelForSeq2SeqLM,
        }[self._known_kind()]
        try:
            model, loading = auto.from_pretrained(
                self._source(), dtype=getattr(torch, dtype), output_loading_info=True, **self._pins()
            )
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            raise self._unusable(error) from error
        model = self._on_device(model).eval()
        if loading["missing_keys"]:
            missing = sorted(loading["missing_keys"])[0]
            raise ModelError(f"{self.config.path}: its files lack '{missing}': it holds no language model to be asked")
        if not self.config.trust_remote_code:  # such a model may read the weights of its layers itself
            from markedness.lm.packed import pack

            pack(model)
        return model

    def _on_device(self, model: Any) -> Any:
        try:
            return model.to(self.config.device)
        except (AssertionError, RuntimeError) as error:  # torch asserts that it was built for a device
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"{self.config.path}: does not get onto device '{self.config.device}' ({reason}); set device: cpu, or "
                "name a device that has room and for which the installed torch was built"
            ) from error

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        self.prepare()
        import transformers

        try:
            return transformers.AutoTokenizer.from_pretrained(self._source(), **self._pins())
        except (OSError, ValueError, ImportError) as error:
            raise self._unusable(error) from error

    def _known_kind(self) -> Kind:
        if self.kind is not None:
            return self.kind
        from transformers import AutoConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

        try:
            config = AutoConfig.from_pretrained(self._source(), **self._pins())
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        if config.is_encoder_decoder:
            return "encoder-decoder"
        masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
        return "masked" if masked else "causal"

    def _source(self) -> str:
        """The folder where there is one, else the hub id."""
        return str(self.folder) if self.folder.is_dir() else self.config.path

    def _pins(self) -> dict[str, Any]:
        pins: dict[str, Any] = {"trust_remote_code": self.config.trust_remote_code}
        return pins if self.folder.is_dir() else pins | {"revision": self._commit or self.config.revision}

    def _unusable(self, error: Exception) -> ModelError:
        reason = " ".join(str(error).split())[:300]
        return ModelError(f"{self.config.path}: cannot be loaded as a folder beside params.yaml or a hub id: {reason}")

    def unload(self) -> None:
        """Free the memory."""
        self._models.clear()
