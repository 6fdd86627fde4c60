// grpcweb calls a method by gRPC-Web, and reads all of its answer: frames of a flag, a length and a body, the last of which
// has the trailers.
async function grpcweb(url, token, request) {
  const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const message = bytes(request);
  const frame = new Uint8Array(5 + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, 5);
  const reply = { Messages: [], Status: "", Refused: "" };
  let answer;
  try {
    answer = await fetch(url, {
      method: "POST",
      body: frame,
      headers: { "Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1", Authorization: "Bearer " + token },
    });
  } catch (error) {
    reply.Refused = error.message;
    return reply;
  }
  reply.Status = answer.headers.get("grpc-status") || ""; // of an answer without a body
  const reader = answer.body.getReader();
  let unread = new Uint8Array(0);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return reply;
    const both = new Uint8Array(unread.length + value.length);
    both.set(unread);
    both.set(value, unread.length);
    unread = both;
    while (unread.length >= 5) {
      const size = new DataView(unread.buffer, unread.byteOffset).getUint32(1);
      if (unread.length < 5 + size) break;
      const body = unread.slice(5, 5 + size);
      if (unread[0] & 0x80) {
        reply.Status = /grpc-status: *(\d+)/i.exec(new TextDecoder().decode(body))[1];
      } else {
        reply.Messages.push(btoa(String.fromCharCode(...body)));
        grpcweb.messages++;
      }
      unread = unread.slice(5 + size);
    }
  }
}
