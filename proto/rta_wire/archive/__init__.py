"""Archived sessions: names of folders and files, manifests, columns, and from Arrow rows back to samples and messages.

Pure: the caller lists folders, reads manifests and opens Parquet files. To read one session:

    session = folder.SessionArchive.parse(identity, {name: data for each manifest in its folder})
    for segment in session.segments(after, until):          # ranges of entry ids; a hole has no part
        for file in segment.part.files_of("samples", start_ns, end_ns):
            parquet = pq.ParquetFile(path / file.name, page_checksum_verification=True)
            groups = selection.row_groups(parquet.metadata, row_filter)      # skips by statistics
            for batch in parquet.iter_batches(row_groups=groups, columns=list(schema.READ_COLUMNS)):
                columns = samples.columns(batch).where(row_filter)           # channels, times_ns, values, integers

Entries above `session.until` are in the stream, live or cold. `messages.rebuild` makes the messages that the stream had
of the samples and the table of messages in the file `names.messages_of(file.name)`.
"""
