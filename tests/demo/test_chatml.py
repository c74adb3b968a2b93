import jinja2

from fcshim.demo.chatml import TEMPLATE, write_prompt

MESSAGES = [("system", "Be short.\n"), ("user", "say hello"), ("assistant", "hello"), ("user", "")]


def test_the_function_writes_what_the_template_writes() -> None:
    messages = [{"role": role, "content": text} for role, text in MESSAGES]
    rendered = jinja2.Template(TEMPLATE, keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    )

    assert write_prompt(MESSAGES) == rendered


def test_a_prompt_ends_where_the_assistant_begins() -> None:
    assert write_prompt([("user", "hi")]) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
