// Requests to the handler, which is where the page comes from.

const tokenKey = "holdfast-ui-token";

// takeToken takes the token from the address, and removes it there. It is kept until the tab is closed.
export const takeToken = () => {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  sessionStorage.setItem(tokenKey, given);
  history.replaceState(null, "", location.pathname + location.search);
};

export const setToken = (token) => sessionStorage.setItem(tokenKey, token);

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export const request = async (call, { body, signal } = {}) => {
  const headers = {};
  const token = sessionStorage.getItem(tokenKey);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) Object.assign(headers, { "Content-Type": "application/json", "X-Holdfast-UI": "1" });
  const response = await fetch(`api/${call}`, {
    method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body), cache: "no-store",
  });
  if (!response.ok) {
    const why = await response.json().then((r) => r.error, () => response.statusText);
    throw new Refused(response.status, why);
  }
  return response;
};

export const getJSON = async (call, options) => (await request(call, options)).json();
