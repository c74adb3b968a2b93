"""The providers' own SDKs as clients of a running fcshim. A missing SDK is left out; in CI that is a failure."""

import importlib.util
import os

_NEEDED = {
    "test_anthropic.py": "anthropic",
    "test_gemini.py": "google.genai",
    "test_ollama.py": "ollama",
    "test_openai_responses.py": "openai",
    "test_provider_tools.py": "google.genai",
    "test_server_tools.py": "anthropic",
}


def _is_missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # of the package above it
        return True


collect_ignore = [file for file, module in _NEEDED.items() if os.environ.get("CI") != "true" and _is_missing(module)]
