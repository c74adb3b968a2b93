import jinja2

from fcshim.demo.chatml import TEMPLATE, write_prompt

MESSAGES = [("system", "Be short.\n"), ("user", "say hello"), ("assistant", "hello"), ("user", "")]


def test_the_function_and_the_template_give_the_same_prompt() -> None:
    messages = [{"role": role, "content": text} for role, text in MESSAGES]
    rendered = jinja2.Template(TEMPLATE, keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    )

    assert write_prompt(MESSAGES) == rendered


def test_a_prompt_ends_with_the_start_of_the_assistant_turn() -> None:
    assert write_prompt([("user", "hi")]) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
