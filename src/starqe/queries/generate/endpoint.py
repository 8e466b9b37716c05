"""Sends SELECT queries to a SPARQL endpoint: SPARQL 1.1 Protocol, results as JSON."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence

from pyoxigraph import QueryResultsFormat, QuerySolution, QuerySolutions, parse_query_results

from starqe.errors import InputError, StorageError

JSON = "application/sparql-results+json"
_SHOWN = 300
"""Number of characters of an error page that are shown."""


def check_endpoint(endpoint: str) -> None:
    """Checks the address of an endpoint.

    Raises:
        InputError: It is not the address of a web server.
    """
    parts = urllib.parse.urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"a SPARQL endpoint is an address such as http://localhost:7878/query, found '{endpoint}'")


def select(endpoint: str, query: str, variables: Sequence[str], timeout: float) -> Iterator[QuerySolution]:
    """Yields the solutions of a query as they arrive, each with the values of these variables in this order.

    Raises:
        InputError: The endpoint refuses the query, or answers with something other than solutions.
        StorageError: The endpoint cannot be reached, fails, closes the connection, or exceeds the time-out.
    """
    request = urllib.request.Request(  # noqa: S310 - the scheme has been checked
        endpoint,
        data=urllib.parse.urlencode({"query": query}).encode(),
        headers={"Accept": JSON, "Content-Type": "application/x-www-form-urlencoded"},
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310 - as above
            solutions = parse_query_results(response, format=QueryResultsFormat.JSON)
            if not isinstance(solutions, QuerySolutions):
                raise InputError(f"{endpoint}: a SELECT query is answered by solutions, found a yes or no")
            found = [str(variable) for variable in solutions.variables]
            if found != list(variables):
                raise InputError(f"{endpoint}: the solutions are of {' '.join(variables)}, found {' '.join(found) or 'no variable'}")
            yield from solutions
    except urllib.error.HTTPError as error:
        kind = InputError if error.code < 500 else StorageError
        page = error.read(4 * _SHOWN).decode("utf-8", "replace").strip()[:_SHOWN]
        raise kind(f"{endpoint}: the endpoint refuses the query (HTTP {error.code} {error.reason}): {page}") from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{endpoint}: an answer is SPARQL results in JSON, found something else ({error})") from None
    except TimeoutError:
        raise _silent(endpoint, timeout) from None
    except (OSError, http.client.HTTPException) as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):
            raise _silent(endpoint, timeout) from None
        raise StorageError(f"{endpoint}: the endpoint cannot be reached, or broke off ({error!r}). Is it running?") from None


def _silent(endpoint: str, timeout: float) -> StorageError:
    return StorageError(f"{endpoint}: no answer within {timeout:g} s. Give a longer time-out, or ask for fewer shapes")
