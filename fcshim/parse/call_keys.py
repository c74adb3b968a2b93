"""The keys of a call in JSON, and names that models invent for the parts of one.

Rule: an argument that is called like one of them is an argument, where the tool has such a parameter.
"""

from dataclasses import dataclass, field

REMARK_KEYS = frozenset(
    (
        *("thought", "thoughts", "thinking", "reasoning", "reason", "rationale", "why", "explanation", "description"),
        *("comment", "note", "confidence", "status", "meta", "metadata", "result", "results", "response", "output"),
        *("strict", "required", "returns"),  # of the tool's definition
    )
)
"""Members beside the arguments that say something about the call, and change nothing."""
OTHER_ROLES = frozenset(("user", "human", "system", "developer", "tool", "function", "ipython", "observation"))
NAME_KEYS = (
    *("name", "tool", "tool_name", "function_name", "function", "toolName", "functionName", "action"),
    *("tool_call", "function_call"),
    *("nom", "nombre", "nome", "名称", "名稱", "函数", "名前", "имя"),  # models translate keys with the conversation
)
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "params", "inputs", "kwargs", "action_input", "tool_input"),
    *("paramètres", "argumentos", "parámetros", "parametros", "parâmetros", "argomenti", "parametri"),
    *("Argumente", "Parameter", "参数", "參數", "引数", "аргументы", "параметры"),
)
WRAPPER_KEYS = ("function", "tool_call", "function_call")
OWN_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS))


@dataclass(frozen=True, slots=True)
class JsonKeys:
    """The keys of a call's JSON; the first key of each table is the one that the prompt requests."""

    name_keys: tuple[str, ...] = NAME_KEYS
    argument_keys: tuple[str, ...] = ARGUMENT_KEYS
    wrapper_keys: tuple[str, ...] = WRAPPER_KEYS
    """Keys whose object contains the name and the arguments."""
    list_keys: tuple[str, ...] = ("tool_calls", "function_calls")
    """Keys whose array contains the calls."""
    other_keys: tuple[str, ...] = ("type", "id", "index", "tool_call_id", "call_id")
    """Further keys of a call, which are ignored. In a body without markers, a key in none of these tables shows that
    the body is not a call."""
    message_keys: tuple[str, ...] = ("role", "content")
    """Keys of a message around a list of calls; a message that has text beside them is text."""
    thought_keys: tuple[str, ...] = ("thought", "thoughts", "reasoning", "thinking")
    """Keys beside a call or a list of calls, with what the model thinks of them (xLAM); they are dropped."""
    name_is_key: bool = False
    """True if the tool's name is the key, and the arguments are its value: `{"f": {...}}`."""

    known_keys: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    """Every key that a call may have."""
    part_keys: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    """Every key of the arguments, of a call or of several calls: what stands in one is never left out."""
    first_keys: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    """Every key with which a body without markers may begin."""

    def __post_init__(self) -> None:
        """Collect the known keys once: each line that begins with a bracket is compared with them."""
        parts = (*self.argument_keys, *self.wrapper_keys, *self.list_keys)
        keys = (*self.name_keys, *parts, *self.other_keys)
        object.__setattr__(self, "known_keys", frozenset(keys))
        object.__setattr__(self, "part_keys", frozenset(parts))
        object.__setattr__(self, "first_keys", frozenset((*keys, *self.message_keys, *self.thought_keys)))
