"""What is read from a docstring, and what is left alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alpineagents.tools.docstring import read_docstring


def described(docstring: str) -> dict[str, str]:
    return read_docstring(docstring).parameters


@pytest.mark.parametrize("docstring", [None, "", "  \n\t\n  "])
def test_no_text_gives_no_description(docstring: str | None) -> None:
    assert read_docstring(docstring) == ("", {})


def test_the_description_is_the_first_paragraph_on_one_line() -> None:
    text = """

    Find a parcel
      by its number.

    It looks everywhere.
    """
    assert read_docstring(text).description == "Find a parcel by its number."


def test_the_header_ends_the_summary_without_a_blank_line() -> None:
    assert read_docstring("Find a parcel.\nArgs:\n    number: As printed") == (
        "Find a parcel.",
        {"number": "As printed"},
    )


def test_a_docstring_that_starts_with_the_header_has_no_description() -> None:
    assert read_docstring("Args:\n    number: As printed") == ("", {"number": "As printed"})


@pytest.mark.parametrize("header", ["Args:", "args:", "ARGS:", "  aRgS:  "])
def test_the_header_may_have_any_case(header: str) -> None:
    assert described(f"Find.\n{header}\n      number: As printed") == {"number": "As printed"}


@pytest.mark.parametrize("docstring", ["Args\n    number: As printed", "Find.\n\nArgs\n    number: As printed"])
def test_a_header_without_colon_starts_a_paragraph(docstring: str) -> None:
    assert described(docstring) == {"number": "As printed"}


@pytest.mark.parametrize(
    "docstring",
    [
        "Find.\nArgs\n    number: As printed",
        "Parses args\n    number: As printed",
        "Find.\n\nArgs: inline text\n    number: As printed",
        "Find.\n\nArguments:\n    number: As printed",
        "Find.\n\nParameters\n    number: As printed",
        "Find.\n\n:param number: As printed",
    ],
)
def test_nothing_else_is_a_header(docstring: str) -> None:
    assert described(docstring) == {}


def test_the_word_inside_a_paragraph_stays_in_the_description() -> None:
    assert read_docstring("Count the\nargs\nof a call").description == "Count the args of a call"


@pytest.mark.parametrize(
    "entry",
    [
        "number: As printed",
        "number : As printed",
        "number (str): As printed",
        "number (str, optional) : As printed",
        "number(dict[str, int]): As printed",
        "number (Callable[[int], str] (any)): As printed",
        "number (e.g. a: b): As printed",
        "number:As printed",
    ],
)
def test_an_entry_is_a_name_a_bracket_and_a_text(entry: str) -> None:
    assert described(f"Find.\n\nArgs:\n    {entry}") == {"number": "As printed"}


def test_a_name_may_be_any_identifier() -> None:
    assert described("Args:\n    größe_1: In metres\n    _x: Hidden") == {"größe_1": "In metres", "_x": "Hidden"}


def test_a_description_goes_on_over_lines() -> None:
    text = """Find.

    Args:
        number:
            As printed
              on the label
        town: Where
    """
    assert described(text) == {"number": "As printed on the label", "town": "Where"}


def test_a_deeper_line_with_a_colon_continues_the_entry() -> None:
    text = """Find.

    Args:
        number: As printed,
            town: see the map
        town: Where
    """
    assert described(text) == {"number": "As printed, town: see the map", "town": "Where"}


@pytest.mark.parametrize("line", ["or 7: any", "see http://a.example", "http://a.example/b", "- first"])
def test_a_line_that_is_no_entry_continues_the_one_before(line: str) -> None:
    assert described(f"Find.\n\nArgs:\n    number: As printed\n    {line}") == {"number": f"As printed {line}"}


def test_a_shallower_entry_is_an_entry() -> None:
    assert described("Find.\n\nArgs:\n      number: As printed\n    town: Where") == {
        "number": "As printed",
        "town": "Where",
    }


def test_entries_may_stand_at_the_indent_of_the_header() -> None:
    assert described("Find.\n\nArgs:\nnumber: As printed\n  on it\ntown: Where\nReturns:\nThe place") == {
        "number": "As printed on it",
        "town": "Where",
    }


def test_blank_lines_do_not_end_the_section() -> None:
    text = """Find.

    Args:

        number: As printed

            on the label

        town: Where
    """
    assert described(text) == {"number": "As printed on the label", "town": "Where"}


def test_blank_lines_between_entries_at_the_indent_of_the_header_do_not_end_it() -> None:
    # inspect.cleandoc puts the entries at the indent of a header that stands on the first line.
    text = """Args:
        number: As printed

        town: Where

        And a closing word.
    """
    assert described(text) == {"number": "As printed", "town": "Where"}


@pytest.mark.parametrize("header", ["Returns:", "Raises:", "See also:", "Rückgabe:"])
def test_a_section_header_ends_the_section(header: str) -> None:
    assert described(f"Find.\n\nArgs:\n    number: As printed\n{header}\n    town: Where") == {"number": "As printed"}


def test_text_after_a_blank_line_at_the_indent_of_the_header_ends_the_section() -> None:
    assert described("Find.\n\nArgs:\n    number: As printed\n\nNote: more\n    town: Where") == {
        "number": "As printed"
    }


def test_text_directly_below_at_the_indent_of_the_header_continues() -> None:
    assert described("Find.\n\nArgs:\n    number: As printed\non the label") == {"number": "As printed on the label"}


def test_a_deeper_section_header_does_not_end_the_section() -> None:
    assert described("Find.\n\nArgs:\n    number: As printed\n    Returns:\n    town: Where")["town"] == "Where"


def test_only_the_first_section_is_read() -> None:
    assert described("Find.\n\nArgs:\n    number: As printed\n\nArgs:\n    town: Where") == {"number": "As printed"}


def test_the_later_of_two_entries_wins() -> None:
    assert described("Args:\n    number: One\n    number: Two") == {"number": "Two"}


def test_an_entry_without_text_describes_nothing() -> None:
    assert described("Args:\n    number:\n    town: Where") == {"town": "Where"}


def test_text_before_the_first_entry_belongs_to_none() -> None:
    assert described("Args:\n    - all in metres\n    number: As printed") == {"number": "As printed"}


def test_text_is_kept_as_it_is() -> None:
    text = "Find `a` \"b\" 'c' łódź ✓."
    assert read_docstring(f"{text}\n\nArgs:\n    number: {text}") == (text, {"number": text})


NUMPY = """Find a parcel.

Parameters
----------
number : str
    As printed
town : str, optional
    Where
"""
REST = """Find a parcel.

:param number: As printed
:type number: str
:returns: The parcel
"""
EPYTEXT = """Find a parcel.

@param number: As printed
"""
SPHINX_GOOGLE = """Find a parcel.

Arguments:
    number (str): As printed
"""


@pytest.mark.parametrize("docstring", [NUMPY, REST, EPYTEXT, SPHINX_GOOGLE])
def test_another_style_gives_its_summary_and_no_parameters(docstring: str) -> None:
    assert read_docstring(docstring) == ("Find a parcel.", {})


GOOGLE = """Find a parcel.

    With a long story.

    Args:
        number (str | None, optional): As printed: with all its digits
            (see also: the label)
        *rest: No entry, so it goes on
        town (dict[str, int]): Where

    Returns:
        parcel: The parcel

    Example:
        town: Ulm
"""


def test_the_google_style_is_read_whole() -> None:
    assert read_docstring(GOOGLE) == (
        "Find a parcel.",
        {
            "number": "As printed: with all its digits (see also: the label) *rest: No entry, so it goes on",
            "town": "Where",
        },
    )


@pytest.mark.parametrize(
    "docstring",
    [
        "Args:",
        "Args:\n",
        "Args:\nArgs:\nArgs:",
        "Args:\n    :",
        "Args:\n    (number): x",
        "Args:\n    number (: x",
        "Args:\n    1: x",
        "Args:\n  \t- number",
        "Args:\n\n\n",
        "Args\n----\n",
    ],
)
def test_a_broken_section_describes_nothing(docstring: str) -> None:
    assert read_docstring(docstring) == ("", {})


@pytest.mark.parametrize(
    "docstring",
    [
        "x" * 1_000_000,
        "word \n" * 200_000,
        "Args:\n" + "    name (" * 100_000,
        "Args:\n    name " + "()" * 500_000,
        "Args:\n    name" + " " * 1_000_000,
        "Args:\n" + "    name: text\n        more\n" * 50_000,
        "Args:\n    number: x\n" + "A" * 1_000_000 + ":x",
    ],
    ids=range(7),
)
def test_a_huge_docstring_is_read_in_one_pass(docstring: str) -> None:
    started = time.perf_counter()
    read_docstring(docstring)
    assert time.perf_counter() - started < 3


@given(st.text(alphabet="ab:() \n\tArgs", max_size=200))
def test_any_text_gives_lines_without_breaks(docstring: str) -> None:
    description, parameters = read_docstring(docstring)
    assert not {"\n", "\t"} & set("".join([description, *parameters.values()]))
    assert all(name.isidentifier() for name in parameters)
