// Written by `python -m broker.api`: where each kind of route leads; is it of one address?

export const KINDS = {
  exact: { text: "exact: one address, over one neighbour", gateway: "Neighbour", address: true },
  alias: { text: "alias: an address that stands for another", gateway: "Address that is meant", address: true },
  default: { text: "default: what no other route names", gateway: "Neighbour", address: false },
  dumpster: { text: "dumpster: what has no way at all", gateway: "Queue of the node", address: false },
};
