// @ts-check
/**
 * How tools are called that a page's own object, a polyfill or the browser lists.
 *
 * Knows the ways in which such objects take arguments and hand out results and errors. Each call runs its
 * tool once at most. Does not know how they are listed.
 */
import { contextOf } from './context.js';
import { Boolean, Error, JSON, Object, Promise, Reflect, String, TypeError } from './globals.js';
import { describeError } from './values.js';

export const hasMethod = (object, name) => typeof object?.[name] === 'function';

const WRAPPED = ['content', 'structuredContent', 'isError'];
/** How runtimes refuse arguments of the wrong form, before the tool runs. */
const WRONG_FORM = /^(Failed to (parse input|execute 'executeTool')|"\[object Object\]" is not valid JSON)/;
/** What browsers and polyfills say of a tool that threw; some polyfills add what it threw. */
const THROWN =
  /^Tool was executed but the invocation failed\. For example, the script function threw an error(: .*)?/s;
const HIDDEN_TEXT =
  "the tool failed, and the browser hides the page's error; to see it, load pagetools.js before the page's " +
  "own scripts, or run %pagetools attach (the page's console shows it too)";
const WITHDRAWN = /^The operation failed for an unknown transient reason/;
const WITHDRAWN_TEXT = 'the page withdrew the tool, or the document that has it went away';

/** @param {any} error */
function explained(error) {
  const { name, message } = describeError(error);
  const thrown = THROWN.exec(message);
  const text = thrown ? (thrown[1]?.slice(2) ?? HIDDEN_TEXT) : WITHDRAWN.test(message) && WITHDRAWN_TEXT;
  return text ? Object.assign(new Error(text), { name, cause: error }) : error;
}

/** What a runtime handed out as text, as the tool returned it, as far as that can be told. */
function valueOf(text) {
  if (typeof text !== 'string') return text;
  if (text === 'undefined') return undefined;
  try {
    const value = JSON.parse(text);
    // Digits that a number cannot hold, as in an identifier, stay text.
    return typeof value === 'number' && String(value) !== text ? text : value;
  } catch {
    return text;
  }
}

/** A value that an MCP-B server has put into MCP's shape, taken out again; what a tool gave in it is left. */
function unwrapped(result) {
  const isWrapped = result?.isError === false && result.content?.length === 1 && 'text' in result.content[0];
  if (!isWrapped || Object.keys(result).some((key) => !WRAPPED.includes(key))) return result;
  return 'structuredContent' in result ? result.structuredContent : valueOf(result.content[0].text);
}

/** Whether it is a polyfill, or a server in the place of one. */
const isMarked = (object) => Boolean(object.__isWebMCPPolyfill || object.__isBrowserMcpServer);

/** Calls `executeTool` with arguments in the form that this runtime takes: an object, or its text. */
export async function execute(context, tool, args, signal) {
  const text = JSON.stringify(args);
  const isOfText = isMarked(context) || typeof tool.inputSchema === 'string';
  const forms = isOfText ? [text, args] : [args, text];
  const run = async (form) => valueOf(await context.executeTool(tool, form, { signal }));
  try {
    return await run(forms[0]).catch((error) => {
      if (signal.aborted || !WRONG_FORM.test(describeError(error).message)) throw error;
      return run(forms[1]);
    });
  } catch (error) {
    throw signal.aborted ? error : explained(error);
  }
}

/** Whether a page's method takes (name, args), and not ({name, arguments}) as in MCP. */
function takesName(method) {
  if (method.length !== 1) return true;
  const source = String(method);
  const parameters = /^(?:async\s+)?([\w$]+)\s*=>/.exec(source) ?? /\(\s*([^)]*)/.exec(source);
  return /^[\w$]+\s*(=[^,]*)?,|^(name|id|tool\w*)\b/i.test(parameters?.[1] ?? '');
}

/** Calls a tool of a page's own object, in whichever way that object knows. */
function callOf(object, tool, args, context) {
  const { name } = tool;
  const method = ['callTool', 'invokeTool', 'executeTool'].find((known) => hasMethod(object, known));
  if (method) {
    const given = takesName(object[method]) ? [name, args] : [{ name, arguments: args }];
    return object[method](...given);
  }
  const run = tool.execute ?? tool.handler ?? tool.callback;
  if (typeof run !== 'function') throw new TypeError(`the page lists "${name}" but gives no way to call it`);
  return Reflect.apply(run, tool, [args, contextOf(context)]);
}

/** Ends with the call, also where the tool cannot be told. */
export function until(signal, promise) {
  return new Promise((resolve, reject) => {
    const cancel = () => reject(signal.reason);
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', cancel));
  });
}

/** MCP's way; where an object knows the browser's as well, this one says more of its tools. */
export const isMcp = (object) => hasMethod(object, 'listTools') && hasMethod(object, 'callTool');
const isStandard = (object) =>
  !isMcp(object) && hasMethod(object, 'getTools') && hasMethod(object, 'executeTool');

/** Calls a tool of whatever object a page has. */
export async function callPages(object, tool, args, context) {
  if (isStandard(object)) return execute(object, tool, args, context.signal);
  const result = await callOf(object, tool, args, context);
  return object.__isBrowserMcpServer ? unwrapped(result) : result;
}

/** Calls a tool of `modelContextTesting`: text in, text out. */
export async function callTesting(testing, { name }, args) {
  try {
    return unwrapped(valueOf(await testing.executeTool(name, JSON.stringify(args))));
  } catch (error) {
    throw explained(error);
  }
}
