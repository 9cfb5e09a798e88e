"""Detects the language of a text from the text alone, with the library py3langid (extra `languages`).

What pages declare (`lang`, Content-Language) is not used: it is often that of a template.
"""

import importlib
from functools import lru_cache
from typing import Any, Final

from oai.errors import UsageError

TEXT_CHARACTERS: Final = 2000
"""Characters of a text that are looked at; the time is proportional to them."""
_FEWEST: Final = 40
"""A shorter text, such as that of a menu, has words of any language."""
_CERTAIN: Final = 0.5
"""The least probability. Names, digits and program text stay below it, sentences above."""


def language_of(text: str) -> str | None:
    """Return the language of a text as a code of ISO 639-1, or of 639-3 if it has none there.

    None if the text is short, or belongs to no language clearly.
    """
    beginning = text[:TEXT_CHARACTERS]
    if len(beginning) < _FEWEST:
        return None
    code, probability = _identifier().classify(beginning)
    return code if probability >= _CERTAIN else None


def refuse_without_library() -> None:
    """Raise UsageError if the library is not installed."""
    try:
        importlib.import_module("py3langid")
    except ImportError:
        raise UsageError(
            "the setting provider.recognise_languages needs the extra `languages`; install it with "
            "pip install 'zatva[languages]', or switch the setting off"
        ) from None


@lru_cache(maxsize=1)
def _identifier() -> Any:  # noqa: ANN401 the library has no types
    """Return the library's model, which takes about a second to load and 100 MB of memory."""
    library = importlib.import_module("py3langid.langid")
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)
