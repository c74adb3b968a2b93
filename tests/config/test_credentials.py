"""Texts as they may be logged: credentials are masked by their names."""

import pytest

from fcshim.config.credentials import CredentialMask


@pytest.mark.security
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"password": "hunter2pass", "x": 1}', '{"password":"***","x":1}'),
        ('{"env": {"OPENAI_API_KEY": "sk-123456789"}}', '{"env":{"OPENAI_API_KEY":"***"}}'),
        ('{"command": "mysql --password hunter2 -u me"}', '{"command": "mysql --password *** -u me"}'),
        (
            '{"command": "curl -H \\"Authorization: Bearer abcdef\\" http://x"}',
            '{"command": "curl -H \\"Authorization: Bearer ***\\" http://x"}',
        ),
        ("export API_KEY=abc DEF=1", "export API_KEY=*** DEF=1"),
        ("tool --api-key=kk --out file", "tool --api-key=*** --out file"),
        ("{'secret': 'abc'}", "{'secret': '***'}"),
        ('PASSWORD="a b c" go', 'PASSWORD="***" go'),
        ("password = x\nuser = me", "password = ***\nuser = me"),
        ("git clone https://me:pw12345@host/x", "git clone https://me:***@host/x"),
        ("Cookie: a=1", "Cookie: ***"),
        ("max_tokens=50, next_page_token: 3, user: pass", "max_tokens=50, next_page_token: 3, user: pass"),
        ("the key is x", "the key is x"),
        ("", ""),
    ],
)
def test_a_text_is_masked_by_the_names_of_its_values(text, shown):
    assert shown == CredentialMask().text(text)


@pytest.mark.security
def test_what_was_masked_once_is_masked_in_later_texts():
    mask = CredentialMask()
    mask.text("export TOKEN=abcdefghij")

    assert "it is **********" == mask.text("it is abcdefghij")


@pytest.mark.security
def test_a_text_that_cannot_be_searched_is_not_shown():
    text = '{"password": "abcdefgh", "x": [' + "1," * 500_000 + "1]}"

    assert "abcdefgh" not in CredentialMask().text(text)
