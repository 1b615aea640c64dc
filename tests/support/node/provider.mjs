// The certified OpenID provider (npm oidc-provider) as the tests need it: a login form that takes any name, keys that
// rotate while it runs, JWT access tokens. Prints "listening <issuer>" and serves until it is stopped.
//
//   node provider.mjs '{"port": 0, "redirectUris": [...], "postLogoutRedirectUris": [...], "clientKeys": [{JWK}]}'
//
// POST /test/rotate   a new key pair of each kind signs from now on; ?withdraw=1 takes the old ones out of the key set
// POST /test/secrets?secret=A&secret=B   these alone count for the client `gateway` from now on

import { createServer } from 'node:http';
import { webcrypto } from 'node:crypto';
import { Provider, errors } from 'oidc-provider';

const options = JSON.parse(process.argv[2]);
const AUDIENCE = 'urn:gateway';
let generation = 0;
let keys = [];
let handle = (request, response) => response.writeHead(503).end();

async function newKeys() {
  generation += 1;
  const made = [];
  for (const [kty, alg, parameters] of [
    ['EC', 'ES256', { name: 'ECDSA', namedCurve: 'P-256' }],
    ['RSA', 'RS256', {
      name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]),
    }],
  ]) {
    const pair = await webcrypto.subtle.generateKey(parameters, true, ['sign', 'verify']);
    const jwk = await webcrypto.subtle.exportKey('jwk', pair.privateKey);
    delete jwk.key_ops;
    delete jwk.ext;
    made.push({ ...jwk, kty, alg, use: 'sig', kid: `${alg}-${process.pid}-${generation}` });
  }
  return made;
}

function client(id, extra) {
  return {
    client_id: id,
    client_secret: `secret of ${id}: 100% + &`,
    redirect_uris: options.redirectUris,
    post_logout_redirect_uris: options.postLogoutRedirectUris,
    grant_types: ['authorization_code'],
    response_types: ['code'],
    id_token_signed_response_alg: 'ES256',
    ...extra,
  };
}

const clients = [
  client('gateway', {}),
  client('gateway-rsa', { id_token_signed_response_alg: 'RS256', token_endpoint_auth_method: 'client_secret_post' }),
  client('machine', { grant_types: ['client_credentials'], response_types: [], redirect_uris: [] }),
];
if (options.clientKeys.length) {
  clients.push(client('gateway-key', {
    client_secret: undefined, token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: options.clientKeys },
  }));
}
let secrets = [clients[0].client_secret];

const accessToken = (audience, algorithm) => ({
  audience,
  scope: 'api',
  accessTokenTTL: 300,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: algorithm } },
});

function configuration() {
  return {
    clients,
    jwks: { keys },
    cookies: { keys: ['a key of the tests'] },
    claims: { openid: ['sub'], email: ['email'], profile: ['name', 'roles', 'realm'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id, email: `${id}@example.test`, name: id, roles: ['reader', 'writer'], realm: { groups: ['staff'] },
      }),
    }),
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => {
          if (resource === AUDIENCE) return accessToken(resource, 'ES256');
          if (resource === `${AUDIENCE}:rsa`) return accessToken(resource, 'RS256');
          throw new errors.InvalidTarget();
        },
      },
    },
    ttl: { AccessToken: 300, AuthorizationCode: 60, ClientCredentials: 300, Grant: 300, IdToken: 300, Interaction: 300,
      Session: 300 },
  };
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://provider');
  if (request.method === 'POST' && url.pathname === '/test/rotate') {
    const made = await newKeys();
    keys = url.searchParams.has('withdraw') ? made : [...made, ...keys];
    serve();
    response.writeHead(204).end();
    return;
  }
  if (request.method === 'POST' && url.pathname === '/test/secrets') {
    secrets = url.searchParams.getAll('secret');
    response.writeHead(204).end();
    return;
  }
  handle(request, response);
});

let issuer;
function serve() {
  const provider = new Provider(issuer, configuration());
  provider.Client.prototype.compareClientSecret = function compare(shown) {
    return (this.clientId === 'gateway' ? secrets : [this.clientSecret]).includes(shown);
  };
  handle = provider.callback();
}

keys = await newKeys();
server.listen(options.port, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  serve();
  console.log(`listening ${issuer}`);
});
