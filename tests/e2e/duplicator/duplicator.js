// Tabs go by their DevTools target ids, which is all that the tests know of them.
const targets = () => chrome.debugger.getTargets();
const tabOf = async (id) => (await targets()).find((target) => target.id === id).tabId;
const targetOf = async (tab) => (await targets()).find((target) => target.tabId === tab.id).id;

self.duplicate = async (id) => targetOf(await chrome.tabs.duplicate(await tabOf(id)));
self.discard = async (id) => targetOf(await chrome.tabs.discard(await tabOf(id)));
self.activate = async (id) => targetOf(await chrome.tabs.update(await tabOf(id), { active: true }));
self.reopen = async () => targetOf((await chrome.sessions.restore()).tab);
