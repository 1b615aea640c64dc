"""HTTP/1.1 as functions of bytes and values: no sockets, no clock, no tasks (decisions 0002 and 0003).

    bytes -> buffer.HeadBuffer -> request.read_request_head   -> RequestHead  -> body.LengthBody, ChunkedBody
                               -> response.read_response_head -> ResponseHead -> body.UntilCloseBody, and the others
    values -> write.request_framing, response_framing -> write.request_head, response_head, chunk_parts -> bytes

The two `read_` functions are the readers of record, gate and h11 behind them; `readers` puts `plain`, the fast lane for
heads that need no judgement, in front of them (decision 0009). Buffers and bodies belong to one connection and
are used by one task at a time; everything else is a pure function. A peer that breaks the protocol raises
`heads.ProtocolError` with the code of the answer; after it nothing more may be read from that connection. What would
break the protocol on our side raises `ValueError` and writes nothing.
"""
