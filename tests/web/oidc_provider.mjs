// The provider of npm's oidc-provider, with one client. Arguments: folder with node_modules, return address.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [folder, back] = process.argv.slice(2);
const found = createRequire(`${folder}/x.js`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(found));

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "zatva",
        client_secret: "a secret between the two",
        redirect_uris: [back],
        post_logout_redirect_uris: [new URL("/sign-in", back).href],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    scopes: ["openid", "profile"],
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: ["librarians"] }),
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
