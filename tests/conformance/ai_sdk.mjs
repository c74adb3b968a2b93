// Reads replies with @ai-sdk-tool/parser: [{"tools": [...], "pieces": [...]}, ...] in, [{"calls", "text"}, ...] out.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const require = createRequire(join(process.argv[2], "package.json"));
const { hermesProtocol } = await import(pathToFileURL(require.resolve("@ai-sdk-tool/parser")));
const replies = JSON.parse(await text(process.stdin));

async function read({ tools, pieces }) {
  const offered = tools.map(({ function: tool }) => ({ type: "function", name: tool.name, inputSchema: tool.parameters }));
  const parser = hermesProtocol().createStreamParser({ tools: offered, options: {} });
  const writer = parser.writable.getWriter();
  const feeding = (async () => {
    await writer.write({ type: "text-start", id: "0" });
    for (const delta of pieces) await writer.write({ type: "text-delta", id: "0", delta });
    await writer.write({ type: "text-end", id: "0" });
    await writer.write({ type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: {} });
    await writer.close();
  })();
  const answer = { calls: [], text: "" };
  for await (const part of parser.readable) {
    if (part.type === "text-delta") answer.text += part.delta;
    if (part.type === "tool-call") answer.calls.push({ name: part.toolName, arguments: JSON.parse(part.input) });
  }
  await feeding;
  return answer;
}

const answers = [];
for (const reply of replies) answers.push(await read(reply).catch(() => ({ calls: [], text: "" })));
console.log(JSON.stringify(answers));
