/** The driver in a runtime that has as little as React Native: what it lacks is gone from Node. */
import "./lacking.ts";
// The entry of React Native first, as in an application: it completes what the rest needs.
import { openParts } from "./react_native.ts";
import { main } from "./driver.ts";

await main(openParts);
