// The report of a server with a token: a browser cannot send one when it opens a page.

import { ask, complain } from "./common.js";

const answer = await ask(location.pathname, { headers: { Accept: "*/*" } });
if (answer.ok) {
  const text = await answer.text();
  document.open();
  document.write(text);
  document.close();
} else {
  complain((await answer.json()).error);
}
