"""aider, which offers no tools: it reads edits out of the model's text."""

import asyncio
import os
import tempfile
from pathlib import Path

from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model

from tests.clients.frameworks.report import run


def edit(url: str, stream: bool) -> str:
    os.environ.update(OPENAI_API_BASE=f"{url}/v1", OPENAI_API_KEY="x")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        file = Path(folder, "notes.txt")
        file.write_text("first\nKEEP\nlast\n", encoding="utf-8")
        model = Model("openai/m", weak_model="openai/m")
        io = InputOutput(yes=True)
        coder = Coder.create(model, "diff", io, fnames=["notes.txt"], use_git=False, stream=stream)
        coder.run("Change the notes.")
        return file.read_text(encoding="utf-8")


async def converse(api: str, url: str, stream: bool) -> str:
    return await asyncio.to_thread(edit, url, stream)


run(converse)
