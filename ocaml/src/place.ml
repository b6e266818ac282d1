type t = {
  uri : string;
  account : (string * string) option;
  secret : string option;
  ca : string option;
  certificate : (string * string) option;
}

let to_json each : Json.t =
  let name, proof =
    match (each.account, each.secret) with
    | Some (name, password), _ -> (name, password)
    | None, secret -> ("", Option.value secret ~default:"")
  in
  let file = function Some path -> `String path | None -> `Null in
  let certificate = Option.map fst each.certificate and key = Option.map snd each.certificate in
  `List [ `String each.uri; `String name; `String proof; file each.ca; file certificate; file key ]
