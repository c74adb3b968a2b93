"""Runs a chat from its settings: opens the endpoint, the tools, the permissions and the session.

Rule: everything that is opened here is closed here; slow modules are imported only if a setting needs them.
"""

import os
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import msgspec
from rich.console import Console

from fcshim.agent import DEFAULT_MAX_ROUNDS
from fcshim.chat import demo
from fcshim.chat.advice import explain
from fcshim.chat.conversation import ChatConversation
from fcshim.chat.one_shot import print_json, print_text
from fcshim.chat.prompter import Prompter
from fcshim.chat.session import (
    ChatSession,
    SessionStore,
    default_session_folder,
    make_private_file,
    make_private_folder,
)
from fcshim.chat.terminal_view import TerminalView
from fcshim.chat.tools import ToolFolders, load_agent_profiles, open_registry, register_agents
from fcshim.chat.user_commands import TurnInput, UserCommands
from fcshim.client import Client
from fcshim.codecs.upstreams import UpstreamApi
from fcshim.config import ToolsPolicy
from fcshim.demo.gguf_file import require_packages
from fcshim.errors import ConfigError, FcshimError
from fcshim.mcp.tool_names import full_rule
from fcshim.messages import SystemMessage, TextPart, UserMessage
from fcshim.sanitize import sanitize_line
from fcshim.tools import PermissionRule, Permissions, Registry, parse_rules
from fcshim.tools.permission import PermissionMode


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the command line; `url` None: the embedded model, `resume` None: a new session."""

    url: str | None = None
    model: str = ""
    api: UpstreamApi = "openai"
    tools: ToolsPolicy = "prompt"
    dialect: str = "auto"
    key: str | None = None
    mcp: str | None = None
    pins: str | None = None
    root: str | None = None
    custom: str | None = None
    skills: str | None = None
    commands: str | None = None
    profiles: str | None = None
    agents: bool = False
    mode: PermissionMode = "ask"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    system: str = ""
    max_rounds: int = DEFAULT_MAX_ROUNDS
    resume: str | None = None
    save: bool = True
    prompt: str | None = None
    json: bool = False


async def run_chat(settings: ChatSettings) -> None:
    """Run one turn if there is a prompt, else a conversation. Raises `FcshimError`."""
    store = SessionStore(default_session_folder(os.environ))
    session = _open_session(settings, store)
    scripted = settings.prompt is not None
    view = TerminalView(Console(stderr=scripted, highlight=False, emoji=False), show_text=not scripted)
    rules = _rules(settings)

    def save() -> None:
        if settings.save and session.messages:
            store.save(session)

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_open_client(session.url, settings))
        door = Prompter(client, session)
        permissions = Permissions(settings.mode, rules=rules, ask=door.ask)
        folders = msgspec.convert(settings, ToolFolders, from_attributes=True)
        profiles = load_agent_profiles(folders)
        tools = open_registry(folders, settings.mcp, settings.pins, door, view, permissions)
        registry, commands = await stack.enter_async_context(tools)
        if session.url is None and not len(registry) and settings.mcp is None:
            registry.register(demo.demo_tool())
        if settings.agents or profiles:
            others = register_agents(
                client,
                registry,
                lambda mode: Permissions(mode, rules=rules, ask=door.ask, restrictions=permissions.restrictions),
                lambda: permissions.mode,
                lambda: session.model,
                profiles,
            )
            await stack.enter_async_context(others)
        conversation = _create_conversation(client, registry, permissions, session, settings.max_rounds)
        if settings.prompt is None:
            await _run_interactive(conversation, view, store, save, door, commands, history=settings.save)
        else:
            try:
                turn = await commands.find(settings.prompt) if settings.prompt.startswith("/") else None
                turn = turn or TurnInput((UserMessage((TextPart(settings.prompt),)),))
                await _run_once(conversation, turn, view, as_json=settings.json)
            finally:
                save()


def _create_conversation(
    client: Client, registry: Registry, permissions: Permissions, session: ChatSession, max_rounds: int
) -> ChatConversation:
    """Make the conversation; one with the embedded model is not asked what it cannot do."""
    if session.url is not None:
        return ChatConversation(client, registry, permissions, session, max_rounds=max_rounds)
    return ChatConversation(
        client,
        registry,
        permissions,
        session,
        max_rounds=max_rounds,
        refusal=lambda text: demo.refusal(text, registry.get_names()),
        sampling={"max_tokens": demo.REPLY_TOKENS},
    )


async def _run_once(conversation: ChatConversation, turn: TurnInput, view: TerminalView, *, as_json: bool) -> None:
    events = conversation.send(turn.messages, turn.allowed)
    try:
        await (print_json(conversation, events) if as_json else print_text(events, view))
    except FcshimError as error:
        error.message = explain(error, script=True)
        raise


async def _run_interactive(
    conversation: ChatConversation,
    view: TerminalView,
    store: SessionStore,
    save: Callable[[], None],
    prompter: Prompter,
    commands: UserCommands,
    *,
    history: bool,
) -> None:
    from fcshim.chat.terminal import Terminal  # noqa: PLC0415 - prompt-toolkit, which scripts do not need

    file = default_session_folder(os.environ).parent / "history" if history else None
    if file is not None:
        make_private_folder(file.parent)
        make_private_file(file)  # prompt-toolkit would let everybody read it
    terminal = Terminal(conversation, view, store=store, save=save, history=file, commands=commands)
    prompter.user = terminal
    view.note(_greeting(conversation))
    await terminal.run()
    if history and conversation.session.messages:
        view.note(f"to continue: fcshim chat --resume {conversation.session.id}")


def _greeting(conversation: ChatConversation) -> str:
    count = len(conversation.registry)
    tools = "no tools" if not count else f"{count} tool{'s' * (count > 1)} (/tools)"
    if conversation.session.url is None:
        about = demo.introduction(conversation.registry.get_names())
        return f"{about}\nIt has {tools}. /help lists the commands."
    return f"{conversation.session.model or 'The first model of the endpoint'}, with {tools}. /help lists the commands."


def _open_session(settings: ChatSettings, store: SessionStore) -> ChatSession:
    if settings.resume is not None:
        return _resume_session(settings, settings.resume, store)
    messages = (SystemMessage((TextPart(settings.system),)),) if settings.system else ()
    return ChatSession(_new_id(), settings.url, settings.model, messages)


def _resume_session(settings: ChatSettings, name: str, store: SessionStore) -> ChatSession:
    """Load a session; the address of the command line takes precedence over that of the file."""
    session = store.load(name)
    if name.endswith(".json"):
        session.id = _new_id()  # a file from elsewhere replaces no session of this folder
    if session.url is not None and settings.url is None:
        _confirm_address(session.url, settings)
    session.model, session.url = settings.model or session.model, settings.url or session.url
    return session


def _confirm_address(url: str, settings: ChatSettings) -> None:
    """Ask whether the conversation, and the key, may go to the address in a session's file. Raises `ConfigError`.

    A file can be made by somebody else: its address would get the key of the user's own endpoint.
    """
    again = f"to use it, name it: fcshim chat {shlex.quote(url)} --resume {shlex.quote(settings.resume or '')}"
    if settings.prompt is not None:
        raise ConfigError(f"the session was with {url}; {again}")
    what = "the conversation and the API key" if settings.key else "the conversation"
    question = f"The session was with {url}. Send {what} there? [y]es, [n]o: "
    try:
        answer = input(sanitize_line(question))
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError(f"the session was with {url}, which was not confirmed")


def _new_id() -> str:
    return f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}-{os.getpid()}"


def _rules(settings: ChatSettings) -> tuple[PermissionRule, ...]:
    return (
        *parse_rules("allow", map(full_rule, settings.allow)),
        *parse_rules("deny", map(full_rule, settings.deny)),
    )


@asynccontextmanager
async def _open_client(url: str | None, settings: ChatSettings) -> AsyncIterator[Client]:
    """Connect to the endpoint, or start the embedded model."""
    async with AsyncExitStack() as stack:
        key = settings.key
        if url is None:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small are slower on several threads
            require_packages("numpy", "gguf")
            from fcshim.demo.serving import serve_model  # noqa: PLC0415 - needs optional packages

            url, key = (await stack.enter_async_context(serve_model())).url, None  # the key is another endpoint's
        client = Client(url, api=settings.api, tools=settings.tools, dialect=settings.dialect, api_key=key)
        yield await stack.enter_async_context(client)
