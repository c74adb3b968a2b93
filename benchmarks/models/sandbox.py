"""The tools of the loops and conversations: deterministic functions over a small set of data, and what they change.

Rule: a result depends only on the calls so far, and has what was done in it, so that equal results mean equal actions.
"""

import ast
import copy
import difflib
import functools
import operator
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.tools import Executor
from fcshim.tools.result import ToolResult, failed, succeeded

Unit: TypeAlias = Literal["kg", "g", "lb", "km", "m", "mile", "celsius", "fahrenheit"]

_FACTORS: Mapping[str, tuple[str, Fraction]] = {
    "g": ("mass", Fraction(1)),
    "kg": ("mass", Fraction(1000)),
    "lb": ("mass", Fraction("453.59237")),
    "m": ("length", Fraction(1)),
    "km": ("length", Fraction(1000)),
    "mile": ("length", Fraction("1609.344")),
}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_DIGITS = 2
"""Decimal places of computed numbers."""


class Sandbox:
    """The data of one task, with its tools as methods."""

    def __init__(self) -> None:
        self._data = copy.deepcopy(_data())
        self._basket: list[dict[str, JSON]] = []
        self._timers: list[int] = []

    def executor(self, names: Iterable[str]) -> Executor:
        """Return an executor of these tools."""
        return Executor([getattr(self, name) for name in names])

    def result_of(self, name: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Run a call whose arguments are valid; return its result, which may be an error."""
        try:
            return succeeded(getattr(self, name)(**arguments))
        except ToolError as error:
            return failed(error.message)

    def order_items(self, order: int) -> JSON:
        """List the articles of an order, with their quantities.

        Args:
            order: The number of the order.
        """
        return {"order": order, "items": self._row("orders", str(order), "order")["items"]}

    def order_status(self, order: int) -> JSON:
        """Tell the status of an order, and the number of its parcel once it is shipped.

        Args:
            order: The number of the order.
        """
        row = self._row("orders", str(order), "order")
        return {"order": order, "customer": row["customer"], "status": row["status"], "parcel": row["parcel"]}

    def parcel_position(self, parcel: str) -> JSON:
        """Tell in which city a parcel is, and when it arrives.

        Args:
            parcel: The number of the parcel.
        """
        return {"parcel": parcel, **self._row("parcels", parcel, "parcel")}

    def article_data(self, sku: str) -> JSON:
        """Tell name, price, weight of one piece and supplier of an article.

        Args:
            sku: The article's number.
        """
        row = self._row("articles", sku, "article")
        return {"sku": sku, **{key: value for key, value in row.items() if key != "stock"}}

    def stock_level(self, sku: str) -> JSON:
        """Tell how many pieces of an article are in stock.

        Args:
            sku: The article's number.
        """
        return {"sku": sku, "pieces": self._row("articles", sku, "article")["stock"]}

    def find_articles(self, words: str) -> JSON:
        """Search the catalogue by the words in an article's name.

        Args:
            words: Words of the name, for example: oak chair.
        """
        wanted = [word.lower().removesuffix("s") for word in words.split()]
        found = [
            {"sku": sku, "name": row["name"], "price": row["price"]}
            for sku, row in self._data["articles"].items()
            if all(word in row["name"].lower() for word in wanted)
        ]
        if not found:
            raise ToolError(f"No article has the words {words!r} in its name.")
        return found

    def put_in_basket(self, sku: str, quantity: int) -> JSON:
        """Put an article into the user's basket.

        Args:
            sku: The article's number.
            quantity: How many pieces.
        """
        price = self._row("articles", sku, "article")["price"]
        self._basket.append({"sku": sku, "quantity": quantity, "price": price})
        total = sum(each["price"] * each["quantity"] for each in self._basket)
        return {"basket": list(self._basket), "total": _plain(Fraction(str(total)))}

    def supplier_contact(self, supplier: str) -> JSON:
        """Tell the e-mail address and the phone number of a supplier.

        Args:
            supplier: The supplier's name.
        """
        return {"supplier": supplier, **self._row("suppliers", supplier, "supplier")}

    def folder_contents(self, folder: str) -> JSON:
        """List the names of the files in a folder.

        Args:
            folder: The folder's path, for example photos.
        """
        prefix = _normal_path(folder) + "/"
        names = [path.removeprefix(prefix) for path in self._data["files"] if path.startswith(prefix)]
        if not names:
            raise ToolError(f"There is no folder {_normal_path(folder)!r}.")
        return names

    def file_text(self, path: str) -> JSON:
        """Read a file.

        Args:
            path: The file's path, with its folder, for example photos/list.txt.
        """
        key = _normal_path(path)
        if key not in self._data["files"]:
            raise ToolError(f"There is no file {key!r}.")
        return self._data["files"][key]

    def work_out(self, expression: str) -> JSON:
        """Calculate the value of an expression.

        Args:
            expression: Numbers, + - * / and parentheses, for example (2 + 3) * 4.
        """
        try:
            return _plain(_value(ast.parse(expression, mode="eval").body))
        except (SyntaxError, ZeroDivisionError) as error:
            raise ToolError(f"The expression {expression!r} has no value.") from error

    def to_unit(self, amount: float, unit: Unit, target: Unit) -> JSON:
        """Convert a weight, a length or a temperature to another unit.

        Args:
            amount: The number to convert.
            unit: The unit of the amount.
            target: The unit to convert to.
        """
        return {"amount": _plain(_converted(Fraction(str(amount)), unit, target)), "unit": target}

    def shift_date(self, day: str, days: int) -> JSON:
        """Tell the date that is a number of days after another one.

        Args:
            day: A date as YYYY-MM-DD.
            days: How many days later; negative for earlier.
        """
        return (_day(day) + timedelta(days)).isoformat()

    def days_between(self, start: str, end: str) -> JSON:
        """Count the days from one date to another.

        Args:
            start: A date as YYYY-MM-DD.
            end: A later date as YYYY-MM-DD.
        """
        return (_day(end) - _day(start)).days

    def weekday_of(self, day: str) -> JSON:
        """Tell the day of the week of a date.

        Args:
            day: A date as YYYY-MM-DD.
        """
        return f"{_day(day):%A}"

    def run_timer(self, minutes: int) -> JSON:
        """Start a kitchen timer.

        Args:
            minutes: After how many minutes it rings.
        """
        self._timers.append(minutes)
        return {"timer": len(self._timers), "rings_in_minutes": minutes}

    def recipe_card(self, dish: str) -> JSON:
        """Tell oven temperature, baking time and flour of a dish.

        Args:
            dish: The name of the dish.
        """
        return {"dish": dish.lower(), **self._row("recipes", dish.lower(), "recipe")}

    def person_record(self, name: str) -> JSON:
        """Tell the city, the e-mail address and the next birthday of a person.

        Args:
            name: First and last name.
        """
        return {"name": name, **self._row("people", name, "person")}

    def day_plan(self, day: str) -> JSON:
        """List what the user has planned for a day.

        Args:
            day: A date as YYYY-MM-DD.
        """
        return {"day": _day(day).isoformat(), "plan": list(self._data["plans"].get(day, []))}

    def add_to_plan(self, day: str, time: str, title: str) -> JSON:
        """Add an entry to the plan of a day.

        Args:
            day: A date as YYYY-MM-DD.
            time: The time of day as HH:MM.
            title: What is planned.
        """
        date_text = _day(day).isoformat()
        entries = self._data["plans"].setdefault(date_text, [])
        entries.append({"time": time, "title": title})
        entries.sort(key=lambda entry: str(entry["time"]))
        return {"day": date_text, "plan": list(entries)}

    def road_distance(self, origin: str, destination: str) -> JSON:
        """Tell how far it is by road between two cities, and how long it takes.

        Args:
            origin: The first city.
            destination: The second city.
        """
        return self._row("roads", " - ".join(sorted((origin, destination))), "road")

    def _row(self, table: str, key: str, kind: str) -> dict[str, JSON]:
        """Return a row of the data. Raises `ToolError`, which names a similar key."""
        rows: dict[str, dict[str, JSON]] = self._data[table]
        if key not in rows:
            similar = difflib.get_close_matches(key, rows, n=1)
            raise ToolError(f"There is no {kind} {key!r}." + (f" Did you mean {similar[0]!r}?" if similar else ""))
        return rows[key]


@functools.cache
def tool_definitions() -> dict[str, Tool]:
    """Return the definitions of all tools by name."""
    names = [name for name in vars(Sandbox) if name[0] != "_" and name not in ("executor", "result_of")]
    return {tool.name: tool for tool in Sandbox().executor(names).definitions}


@functools.cache
def _data() -> dict[str, JSON]:
    data: dict[str, JSON] = msgspec.json.decode((Path(__file__).parent / "sandbox.json").read_bytes())
    return data


def _normal_path(path: str) -> str:
    return path.removeprefix("./").strip("/")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ToolError(f"{text!r} is no date; write it as YYYY-MM-DD.") from error


def _plain(value: Fraction) -> int | float:
    """Return a number as tools write it: whole, or rounded."""
    rounded = round(value, _DIGITS)
    return int(rounded) if rounded.denominator == 1 else float(rounded)


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result: Fraction = _OPERATORS[type(op)](_value(left), _value(right))
            return result
    raise ToolError("Only numbers, + - * / and parentheses can be calculated.")


def _converted(amount: Fraction, unit: Unit, target: Unit) -> Fraction:
    if (unit, target) == ("celsius", "fahrenheit"):
        return amount * 9 / 5 + 32
    if (unit, target) == ("fahrenheit", "celsius"):
        return (amount - 32) * 5 / 9
    kind, factor = _FACTORS.get(unit, (unit, Fraction(1)))
    target_kind, target_factor = _FACTORS.get(target, (target, Fraction(1)))
    if kind != target_kind:
        raise ToolError(f"{unit} cannot be converted to {target}.")
    return amount * factor / target_factor
