// The certified provider `oidc-provider`, for tests: people by login name, keys that can be rotated.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { PACKAGE, PORT, SERVER, REALM } = process.env;
const { default: Provider } = await import(PACKAGE);
const issuer = `http://127.0.0.1:${PORT}`;
const STAFF = {
  ann: { name: "Ann Example", groups: ["staff"] },
  rex: { name: "Rex Example", groups: ["staff", "editors"] },
  olga: { name: "Olga Example", groups: ["admins"] },
  eve: { name: "Eve Example", groups: ["visitors"] },
};

// The people and the client of an export of Keycloak, where one is named.
const realm = REALM ? JSON.parse(readFileSync(REALM, "utf8")) : undefined;
const PEOPLE = realm
  ? Object.fromEntries(
      realm.users.map(({ username, firstName, lastName, groups }) => [
        username,
        { name: `${firstName} ${lastName}`, groups: groups.map((path) => path.split("/").at(-1)) },
      ]),
    )
  : STAFF;
const [exported] = realm?.clients ?? [];
const here = (address) => SERVER + new URL(address).pathname;
const pages = exported
  ? {
      client_id: exported.clientId,
      token_endpoint_auth_method: exported.publicClient ? "none" : "client_secret_basic",
      redirect_uris: exported.redirectUris.map(here),
      post_logout_redirect_uris: [here(exported.attributes["post.logout.redirect.uris"])],
    }
  : {
      client_id: "ragwright",
      client_secret: "not a real secret: +/",
      redirect_uris: [`${SERVER}/login/return`],
      post_logout_redirect_uris: [`${SERVER}/login`],
      backchannel_logout_uri: `${SERVER}/login/ended`,
      backchannel_logout_session_required: true,
    };

const key = (kid) => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid, alg: "RS256", use: "sig" };
};

const provider = (kid) => {
  const made = new Provider(issuer, {
    clients: [
      pages,
      {
        client_id: "robot",
        client_secret: "robot-secret",
        redirect_uris: [],
        response_types: [],
        grant_types: ["client_credentials"],
      },
      {
        client_id: "chat-program",
        token_endpoint_auth_method: "none",
        redirect_uris: ["http://127.0.0.1/returned"],
      },
    ],
    jwks: { keys: [key(kid)] },
    // By default it calls no address of this machine.
    fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
    cookies: { keys: ["cookies of a test"] },
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...PEOPLE[id] }),
    }),
    extraTokenClaims: (_, token) =>
      token.kind === "ClientCredentials"
        ? { groups: ["staff"], name: "A robot" }
        : PEOPLE[token.accountId],
    loadExistingGrant: async (ctx) => {
      const grant = new made.Grant({
        clientId: ctx.oidc.client.clientId,
        accountId: ctx.oidc.session.accountId,
      });
      grant.addOIDCScope(ctx.oidc.params.scope);
      const { resource } = ctx.oidc.params;
      if (resource) grant.addResourceScope(resource, "ask");
      await grant.save();
      return grant;
    },
    ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 600, IdToken: 600, Session: 600, Interaction: 600 },
    features: {
      backchannelLogout: { enabled: true },
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_, resource) => ({
          scope: "ask",
          audience: resource,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
      rpInitiatedLogout: { enabled: true },
    },
  });
  return made;
};

let current = provider("first").callback();
createServer((request, response) => {
  if (request.url === "/rotate") {
    current = provider("second").callback();
    response.end("rotated");
  } else current(request, response);
}).listen(Number(PORT), "127.0.0.1", () => console.log("listening"));
