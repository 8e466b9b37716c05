"""Statements from columns of texts, without a Python object per cell."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.kg.reading.import_options import Columns
from starqe.kg.statement import CONTROL
from starqe.ragged import IntArray, Ragged

TextColumns = tuple[pa.StringArray, IntArray, IntArray, IntArray, Ragged]
"""Words, and the statements by numbers of words: head, relation, tail and pairs."""


def text_columns(batch: pa.RecordBatch, columns: Columns) -> TextColumns | None:
    """Returns the statements of a batch of rows; None if a value is no identifier, or a column has no texts (or is missing)."""
    names = [columns.head, columns.relation, columns.tail, *columns.qualifiers]
    if not len(batch) or not all(name in batch.schema.names and _is_text(batch.schema.field(name).type) for name in names):
        return None
    texts = [pc.utf8_trim_whitespace(batch[name].cast(pa.string()).fill_null("")) for name in names]
    encoded = pa.chunked_array([*texts, pa.array(columns.qualifiers, pa.string())]).dictionary_encode()
    words = encoded.chunks[0].dictionary if encoded.num_chunks == 1 else encoded.chunks[-1].dictionary
    numbers = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    empty = pc.equal(words, "").to_numpy(zero_copy_only=False)
    if any(empty[column].any() for column in numbers[:3]) or pc.any(pc.match_substring_regex(words, CONTROL)).as_py():
        return None
    if not columns.qualifiers:
        return words, *numbers[:3], Ragged.empty(len(batch), 2)
    values = np.stack(numbers[3:-1], axis=1)  # (rows, qualifiers)
    owner, place = np.nonzero(~empty[values])
    pairs = np.stack([numbers[-1][place], values[owner, place]], axis=1)
    return words, numbers[0], numbers[1], numbers[2], Ragged.of_owner(owner, pairs, len(batch))


def _is_text(type_: pa.DataType) -> bool:
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))
