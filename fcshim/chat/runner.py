"""Runs a chat from its settings: opens the endpoint, the tools, the permissions and the session.

Rule: everything that is opened here is closed here; slow modules are imported only if a setting needs them.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from rich.console import Console

from fcshim.chat import demo
from fcshim.chat.attachments import Attachments
from fcshim.chat.conversation import ChatConversation
from fcshim.chat.edits import EditJournal
from fcshim.chat.one_shot import run_script
from fcshim.chat.prompter import Prompter
from fcshim.chat.recap import recap
from fcshim.chat.resume import ResumedSession
from fcshim.chat.session import (
    ChatSession,
    SessionStore,
    default_session_folder,
    make_private_file,
    make_private_folder,
)
from fcshim.chat.settings import ChatSettings
from fcshim.chat.terminal_view import TerminalView, count_of
from fcshim.chat.tools import (
    ChatTools,
    ToolFolders,
    load_agent_profiles,
    open_own_servers,
    open_registry,
    register_agents,
)
from fcshim.client import Client
from fcshim.config import Config, Secret
from fcshim.demo.gguf_file import require_packages
from fcshim.mcp.tool_names import PREFIX, full_rules, server_prefix
from fcshim.messages import SystemMessage, TextPart
from fcshim.tools import PermissionRule, Permissions, check_rules, parse_rules
from fcshim.tools.rules import rule_notes

if TYPE_CHECKING:
    from fcshim.chat.servers import ServerWatch
    from fcshim.chat.terminal import Terminal

_PROMPT_SECONDS = 1.0
"""Seconds that the first prompt waits for servers: most programs need less."""


async def run_chat(settings: ChatSettings) -> None:
    """Run one turn if there is a prompt, else a conversation. Raises `FcshimError`."""
    store = SessionStore(default_session_folder(os.environ))
    scripted = settings.prompt is not None
    view = TerminalView(Console(stderr=scripted, highlight=False, emoji=False), show_text=not scripted)
    session = _open_session(settings, store, view.note)

    def save() -> None:
        if settings.save and (session.messages or store.path(session).exists()):
            store.save(session)

    async with _open_chat(settings, session, view) as chat:
        if settings.prompt is None:
            await _run_interactive(chat, view, store, save, settings)
        else:
            try:
                await run_script(chat.conversation, chat.tools, settings.prompt, view, settings)
            finally:
                save()


class _OpenChat(NamedTuple):
    """A conversation whose endpoint and tools are open."""

    conversation: ChatConversation
    tools: ChatTools
    prompter: Prompter


@asynccontextmanager
async def _open_chat(settings: ChatSettings, session: ChatSession, view: TerminalView) -> AsyncIterator[_OpenChat]:
    rules, options, journal = _rules(settings), session.options, EditJournal()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_open_client(session, settings.key))
        prompter = Prompter(client, session, settings.config.background_model)
        permissions = Permissions(settings.mode, rules=rules, ask=prompter.ask)
        folders = msgspec.convert(options, ToolFolders, from_attributes=True)
        profiles = load_agent_profiles(folders, settings.config)
        wait = settings.script_wait
        opening = open_registry(
            folders,
            options.mcp,
            settings.pins,
            prompter,
            view,
            permissions,
            wait=wait,
            journal=journal,
            config=_with_endpoint(settings, session),
        )
        tools = await stack.enter_async_context(opening)
        if session.url is None and not len(tools.registry) and options.mcp is None:
            tools.registry.register(demo.demo_tool())
        own = {server_prefix(server.name) for profile in profiles.values() for server in profile.servers}
        prefixes = (*(tools.prefixes or (PREFIX,)), *own) if own else tools.prefixes
        check_rules(rules, tools.registry, prefixes, tools.categories)
        for note in rule_notes(rules):
            view.note(note)
        if options.agents or profiles:
            agents = register_agents(
                client,
                tools.registry,
                lambda mode: Permissions(mode, rules=rules, ask=prompter.ask, restrictions=permissions.restrictions),
                lambda: permissions.mode,
                lambda: session.model,
                profiles,
                lambda servers: open_own_servers(servers, settings.pins, prompter, options.root, wait),
                settings.config.max_chars or None,
            )
            await stack.enter_async_context(agents)
        conversation = ChatConversation(
            client,
            tools.registry,
            permissions,
            session,
            max_rounds=settings.max_rounds,
            journal=journal,
            background_model=settings.config.background_model,
            max_output=settings.config.max_chars or None,
            limits=demo.DemoLimits(tools.registry) if session.url is None else None,
        )
        yield _OpenChat(conversation, tools, prompter)


async def _run_interactive(
    chat: _OpenChat, view: TerminalView, store: SessionStore, save: Callable[[], None], settings: ChatSettings
) -> None:
    from fcshim.chat.terminal import Terminal  # noqa: PLC0415 - prompt-toolkit, which scripts do not need

    conversation, tools, prompter = chat
    file = default_session_folder(os.environ).parent / "history" if settings.save else None
    if file is not None:
        make_private_folder(file.parent)
        make_private_file(file)  # prompt-toolkit would create it readable by everyone
    terminal = Terminal(
        conversation,
        view,
        store=store,
        save=save,
        history=file,
        commands=tools.commands,
        attachments=_attachments(conversation),
        before_turn=partial(_wait_before_turn, tools.servers, settings.turn_wait, view),
        bell=settings.bell,
    )
    prompter.user = terminal
    for row in recap(conversation.session.messages):
        view.note(row)
    async with _logging_as_notes(view), _following(tools.servers, terminal, view):
        view.note(_greeting(conversation, tools.servers.connecting() if tools.servers is not None else ()))
        await terminal.run()
    if settings.save and conversation.session.messages:
        view.note(f"to continue: fcshim chat --resume {conversation.session.id}")


async def _wait_before_turn(servers: "ServerWatch | None", seconds: float, view: TerminalView) -> None:
    if servers is not None:
        await servers.wait_before_turn(seconds, view.note)


def _attachments(conversation: ChatConversation) -> Attachments:
    """Return the files that questions may name: those of the tools' folder, else of the current one."""
    session = conversation.session

    async def image_refusal() -> str:
        return await conversation.client.image_refusal(session.model)

    return Attachments(Path(session.options.root or "."), conversation.permissions, image_refusal)


class _NoteHandler(logging.Handler):
    """Shows records of the log as notes: nothing else may write to the terminal while the chat does."""

    def __init__(self, view: TerminalView) -> None:
        super().__init__(logging.WARNING)
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        self._view.note(record.getMessage())


@asynccontextmanager
async def _logging_as_notes(view: TerminalView) -> AsyncIterator[None]:
    handler, logger = _NoteHandler(view), logging.getLogger("fcshim")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


@asynccontextmanager
async def _following(servers: "ServerWatch | None", terminal: "Terminal", view: TerminalView) -> AsyncIterator[None]:
    """Report the state of the servers after a moment, and then every change."""
    if servers is None:
        yield
        return
    await servers.wait(_PROMPT_SECONDS)
    for report in servers.changes():
        (view.error if report.failed else view.note)(report.text)
    if connecting := servers.connecting():
        view.note(f"connecting to {', '.join(connecting)}: a line reports when their tools are available")
    task = asyncio.create_task(servers.follow(terminal.announce), name="servers")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _greeting(conversation: ChatConversation, connecting: Sequence[str]) -> str:
    """Return the first line; it counts no tools while servers that may have some are `connecting`."""
    count = len(conversation.registry)
    tools = count_of(count, "tool") + (" (/tools)" if count else "")
    if connecting:
        tools = f"{tools} so far" if count else "tools to come"
    if conversation.session.url is None:
        about = demo.introduction(conversation.registry.get_names())
        return f"{about}\nIt has {tools}. /help lists the commands."
    return f"{conversation.session.model or 'The first model of the endpoint'}, with {tools}. /help lists the commands."


def _open_session(settings: ChatSettings, store: SessionStore, show: Callable[[str], None]) -> ChatSession:
    new_id = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}-{os.getpid()}"
    if settings.resume is not None:
        return ResumedSession(settings.resume, store, settings, show).session(new_id)
    messages = (SystemMessage((TextPart(settings.system),)),) if settings.system else ()
    return ChatSession(new_id, settings.url, settings.model, messages, settings.options)


def _rules(settings: ChatSettings) -> tuple[PermissionRule, ...]:
    return (
        *parse_rules("allow", full_rules(settings.allow)),
        *parse_rules("deny", full_rules(settings.deny)),
    )


def _with_endpoint(settings: ChatSettings, session: ChatSession) -> Config:
    """Return the settings of all commands with the session's endpoint, which the provider's search asks too."""
    return msgspec.structs.replace(
        settings.config,
        upstream=session.url or settings.config.upstream,
        upstream_api=session.options.api or "openai",
        upstream_key=Secret(settings.key) if settings.key else None,
    )


@asynccontextmanager
async def _open_client(session: ChatSession, key: str | None) -> AsyncIterator[Client]:
    """Connect to the endpoint, or start the embedded model."""
    async with AsyncExitStack() as stack:
        url, options = session.url, session.options
        if url is None:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
            require_packages("numpy", "gguf")
            from fcshim.demo.serving import serve_model  # noqa: PLC0415 - needs optional packages

            url, key = (await stack.enter_async_context(serve_model())).url, None  # the key belongs to another endpoint
        client = Client(
            url,
            api=options.api or "openai",
            tools=options.tools or "auto",
            dialect=options.dialect or "auto",
            api_key=key,
        )
        yield await stack.enter_async_context(client)
