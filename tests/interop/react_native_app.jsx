/** An application around the docs' component, which the test moves by global functions. */
import { move, tell, timers } from "react-native";
import { create } from "react-test-renderer";

import { device, Study } from "./component.tsx";

let application;
Object.assign(globalThis, {
  move,
  start: (code) => void (application = create(<Study code={code} />)),
  press: (title) => void application.root.findByProps({ title }).props.onPress(),
  record: (temperature) => device.add({ temperature }),
  leave: () => application.unmount(),
  count: () => tell({ event: "counted", text: `${timers.size}` }),
});
