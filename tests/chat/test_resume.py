"""`--resume`: what a session has again, what is given anew, and what is asked about."""

import pytest

from fcshim.chat import resume
from fcshim.chat.resume import ResumedSession
from fcshim.chat.session import ChatSession, SessionOptions, SessionStore
from fcshim.chat.settings import ChatSettings
from fcshim.errors import ConfigError

URL = "http://127.0.0.1:1"


@pytest.fixture
def store(tmp_path):
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def answers(monkeypatch):
    """The questions that were asked; each is answered with the next of `replies`."""
    asked = []

    def give(*replies):
        waiting = iter(replies)
        monkeypatch.setattr(resume, "input", lambda text: (asked.append(text), next(waiting))[1], raising=False)
        return asked

    return give


def resumed(store, name="one", **given):
    said = []
    settings = ChatSettings(resume=name, **given)
    return ResumedSession(name, store, settings, said.append).session("new"), said


def saved(store, tmp_path, **options):
    root = tmp_path / "work"
    root.mkdir(exist_ok=True)
    servers = tmp_path / "servers.json"
    servers.write_text("{}")
    kept = SessionOptions(**{"root": str(root), "mcp": str(servers)} | options)
    session = ChatSession("one", URL, "m", (), kept)
    store.save(session)
    return session


def test_a_session_has_its_options_again(store, tmp_path, answers):
    before = saved(store, tmp_path, api="anthropic", dialect="hermes", skills=str(tmp_path), agents=True)
    answers("y")
    session, said = resumed(store)

    assert before == session
    (line,) = said
    assert line == f"again with --root {tmp_path}/work --mcp {tmp_path}/servers.json --skills {tmp_path}"


def test_what_is_given_anew_wins_and_is_said(store, tmp_path):
    saved(store, tmp_path, api="anthropic")
    session, said = resumed(store, url="http://127.0.0.1:2", model="other", root=str(tmp_path))

    assert ("http://127.0.0.1:2", "other", str(tmp_path)) == (session.url, session.model, session.options.root)
    assert str(tmp_path / "servers.json") == session.options.mcp
    assert session.options.api is None  # the new address has another API
    assert [
        f"address: http://127.0.0.1:2, in place of the session's {URL}",
        "model: other, in place of the session's m",
        f"--root: {tmp_path}, in place of the session's {tmp_path}/work",
        f"again with --mcp {tmp_path}/servers.json",
    ] == said


def test_what_is_the_same_is_not_said(store, tmp_path):
    saved(store, tmp_path)
    _, said = resumed(store, url=URL, model="m", root=str(tmp_path / "work"), mcp=str(tmp_path / "servers.json"))

    assert [] == said


def test_a_folder_that_no_longer_exists_is_reported_and_left_out(store, tmp_path):
    saved(store, tmp_path, root=str(tmp_path / "moved"))
    session, said = resumed(store, url=URL)

    assert session.options.root is None
    assert f"--root {tmp_path}/moved of the session no longer exists; it continues without that" == said[0]


def test_paths_are_kept_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "a") == ChatSettings(root="a").options.root


def foreign_file(store, tmp_path):
    session = saved(store, tmp_path)
    return str(store.save(session, tmp_path / "theirs.json"))


@pytest.mark.security
@pytest.mark.parametrize(("answer", "used"), [("y", True), ("n", False), ("", False)])
def test_a_file_from_elsewhere_gets_no_folder_and_starts_no_program_unasked(store, tmp_path, answers, answer, used):
    asked = answers(answer)
    session, said = resumed(store, foreign_file(store, tmp_path), url=URL)

    assert (str(tmp_path / "work") if used else None) == session.options.root
    assert used == bool(session.options.mcp)
    assert [] == said
    (question,) = asked
    assert f"--root {tmp_path}/work --mcp {tmp_path}/servers.json" in question


@pytest.mark.security
def test_a_script_uses_nothing_that_a_file_from_elsewhere_names(store, tmp_path):
    session, said = resumed(store, foreign_file(store, tmp_path), url=URL, prompt="Hi")

    assert (None, None) == (session.options.root, session.options.mcp)
    (line,) = said
    assert line.startswith("without what the session's file names, as a script cannot be asked; to use it: ")
    assert line.endswith(f"--root {tmp_path}/work --mcp {tmp_path}/servers.json")


@pytest.mark.security
def test_permissions_are_no_part_of_a_session():
    assert not {"mode", "allow", "deny", "key"} & set(SessionOptions.__struct_fields__)


def test_an_address_that_is_not_confirmed_is_an_error(store, tmp_path, answers):
    saved(store, tmp_path)
    answers("n")
    with pytest.raises(ConfigError, match="which was not confirmed; another one can be named"):
        resumed(store)


@pytest.mark.security
def test_the_folder_of_a_dialect_is_a_folder(store, tmp_path, answers):
    session = saved(store, tmp_path, root=None, mcp=None, dialect=str(tmp_path))
    file = str(store.save(session, tmp_path / "theirs.json"))
    asked = answers("n")
    resumed_session, _ = resumed(store, file, url=URL)

    assert resumed_session.options.dialect is None
    assert f"--dialect {tmp_path}," in asked[0]
